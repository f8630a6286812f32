"""Tables in CSV files: one reader for observations, harmonic constants, storm tracks, levees, faults and series.

The first line names the columns, and each further line is a row with a cell for each of them. Decimal commas and
missing delimiters change the number of cells, so that a row with another number of them is refused. Lines that begin
with # are comments. If the first other line holds numbers alone, the comment before it names the columns, as in files
of numpy.savetxt.
"""

import csv
import dataclasses
import datetime
import os
from collections.abc import Iterator

import numpy as np

from ..errors import DataError
from .formats import check_format


@dataclasses.dataclass(frozen=True)
class Table:
    """The cells of a file.

    Attributes:
        path: of the file, for messages.
        names: of the columns; a column without one is "".
        rows: {column: text} of each line, without white space around the texts.
        lines: the number of each row's line in the file, from 1.
    """

    path: str
    names: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    lines: tuple[int, ...]

    def texts(self, name: str) -> list[str]:
        """The cells of a column."""
        return [row[name] for row in self.rows]

    def numbers(self, name: str) -> np.ndarray:
        """The numbers of a column, (n,), with NaN for empty cells; raises DataError for other texts."""
        return np.array([self._number(k, name) for k in range(len(self.rows))], float)

    def _number(self, k, name):
        text = self.rows[k][name]
        try:
            return float(text) if text else np.nan
        except ValueError:
            date = "a date where a number is needed; give seconds since the start of the run" if is_date(text) else ""
            why = date or "not a number; correct it, or leave it empty for a gap"
            raise DataError(f"{self.path}, line {self.lines[k]}: {text!r} in {name} is {why}.") from None


def read_csv(path: str | os.PathLike, inline_comments: bool = False, formats: tuple[str, ...] = ("text",)) -> Table:
    """The Table of a CSV file.

    Args:
        path: of the file.
        inline_comments: whether a # within a line begins a comment, too.
        formats: names of those of formats.py that are CSV tables with a line of names.

    Raises:
        DataError: if the file cannot be read as text, names a column twice, or has rows with more or fewer cells than
            columns. Empty cells at the end of a row do not count.
    """
    check_format(path, formats, "a CSV table")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte order mark
            table = list(_cells(file, inline_comments))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path} cannot be read as a CSV table ({error}); check the path, and save it as text in UTF-8."
        ) from error
    names = table[0][1] if table else ()
    if twice := [name for k, name in enumerate(names) if name and name in names[:k]]:
        raise DataError(f"{path} has the column {twice[0]!r} twice in its header; name each column once.")
    rows = [(line, _padded_to(len(names), cells)) for line, cells in table[1:]]
    if wrong := [(line, len(cells)) for line, cells in rows if len(cells) != len(names)]:
        line, count = wrong[0]
        more = f" (and {len(wrong) - 1} more lines)" if len(wrong) > 1 else ""
        raise DataError(
            f"{path}, line {line} has {count} cells and the header {len(names)}{more}; give one for each column, "
            "separate them by commas, and write decimal points."
        )
    return Table(str(path), tuple(names), tuple(dict(zip(names, row)) for _, row in rows), tuple(k for k, _ in rows))


def _cells(file, inline_comments) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of the header and of each row; blank lines and comments are left out."""
    number, comment, is_header = 0, "", True

    def lines():
        nonlocal number, comment
        for line in file:
            number += 1
            line = line.split("#")[0] if inline_comments else line
            if line.lstrip().startswith("#"):
                comment = line
            elif line.strip():
                yield line

    for row in csv.reader(lines(), skipinitialspace=True):
        row = [cell.strip() for cell in row]
        if is_header and comment and all(map(is_number, row)):
            yield 0, [name.strip() for name in next(csv.reader([comment.lstrip(" #")]))]
        is_header = False
        yield number, row


def is_number(text: str) -> bool:
    """Whether `text` is a number with a decimal point."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    """Whether `text` is a date, or a date and time, of ISO 8601."""
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return not text.isdigit()


def _padded_to(count, cells):
    """The cells without empty ones beyond `count`."""
    return cells[:count] if not any(cells[count:]) else cells

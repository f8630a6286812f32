"""Experiment files with mistakes in them, and what `swmodel check` answers.

    texts = experiments(folder)              # small valid experiments, with the data files that they name
    text = mutated(texts["gyre"], seed=7)    # one of them with one to three changes
    kind, message = outcome(path)            # "accepted", "refused", or "unclear" with what is wrong with the answer

An answer is clear if the file is accepted without a number that is not finite, or refused with exit status 2 by
sentences that name the file (or are mistakes of TOML) and hold no word of Python, numpy or jax.
"""

import contextlib
import io
import random
import re
import signal
import tomllib
import warnings

from swmodel.config.toml import dump

from .texts import experiments

__all__ = ["experiments", "mutated", "outcome"]

# -- mutations ---------------------------------------------------------------------------------------------------------


class Written:
    """A value that stands in the file as `text`, whatever that is."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


VALUES = (
    0, -1, 1, 2, 7, 0.0, -0.5, 0.5, 1.5, 1e-300, 5e-324, -1e300, 1e300, 1e39, 1e15, 1e-12, 100_000, 10**9,
    10**18, 2**63, float("inf"), float("-inf"), float("nan"), True, False, "", " ", "x", "no", "auto", "none",
    "all", "1", "-3", "1e999",
    "1 km", "-5 km", "5 parsec", "1 day", "1 year", "0 s", "1e300 s", "1e-300 s", "3 m s-1", "1 m2", "1e400 m", "nan",
    "inf m", "1 m99999", "m", "5 5", "1 km/0", "sin(x, x)", "sin(x)", "sin()", "1/0", "0/0", "x**x**x", "9**9**9**9",
    "__import__('os')", "x +", "log(-1)", "1e308 * 10", "where(x > 0, 1, 2)", "x if x else y", "[x for x in y]",
    "x.real", "longitude + latitude", "arctan2(y)", "maximum(x, y, x)", "latitude", "'a'", "x < y < x", "rk4", "ab2",
    "rigid_lid",
    "semi_implicit", "pseudo_spectral", "flat", "spherical", "cartesian", "west", "fused", "sharded", "mpi", "2x2",
    "float16",
    "a\0b", "~", "~/x", "/", "/dev/null", "..", ".", "/proc/self/mem", "nowhere.nc", "depth.nc", "wind.nc",
    "é", "\u202e", "\U0001f30a", "x" * 300, "y/" * 3000, [], [1], [1, 2], [2, 1], [1, 2, 3], ["a"], [[]], [[1, 2], [3]],
    [True, False], [float("nan"), 1.0], [0, 0], {}, {"a": 1}, {"type": "flat"}, [{}], [{"type": "x"}],
    Written("1" + "0" * 5000), Written("-" + "9" * 400), Written("1979-05-27"), Written("07:32:00"),
    Written("9999-12-31T23:59:59"), Written("0001-01-01T00:00:00+23:59"), Written("0x" + "f" * 40), Written("1e999999"),
    Written("[" * 60 + "]" * 60), Written("[" * 3000 + "]" * 3000), "(" * 90 + "x" + ")" * 90, "-" * 5000 + "1",
    "+".join(["x"] * 3000), "(" * 5000, "x" + "**2" * 500,
)  # fmt: skip


def mutated(text, seed):
    """The TOML `text` with one to three changes, chosen by the number `seed`."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = _changed_text(text, rng) if rng.random() < 0.15 else _changed_tables(text, rng)
    return text


def _changed_tables(text, rng):
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):
        return text
    places = list(_places(tables))
    if not places:
        return text
    holder, key = rng.choice(places)
    change = rng.choice((_replace, _replace, _replace, _scale, _delete, _rename, _wrap, _borrow, _repeat, _add))
    change(tables, holder, key, rng, places)
    return dump(tables)


def _places(table):
    """(table or list, key or index) of every value, also of tables themselves."""
    for key in list(table) if isinstance(table, dict) else range(len(table)):
        yield table, key
        if isinstance(table[key], (dict, list)):
            yield from _places(table[key])


def _replace(tables, holder, key, rng, places):
    holder[key] = rng.choice(VALUES)


def _scale(tables, holder, key, rng, places):
    value = holder[key]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[key] = rng.choice((-value, float(value), value * 10.0 ** rng.randint(-40, 40), value + 1, value / 3))
    elif isinstance(value, str):
        number = f"{10.0 ** rng.randint(-40, 40):g}"
        holder[key] = re.sub(r"\d+(\.\d+)?", rng.choice(("-1", "0", number)), value, count=1)
    else:
        _delete(tables, holder, key, rng, places)


def _delete(tables, holder, key, rng, places):
    del holder[key]


def _rename(tables, holder, key, rng, places):
    if isinstance(holder, dict):
        at = rng.randrange(len(key) + 1)
        new = rng.choice((key[:at] + key[at + 1 :], key + "s", key.upper(), "type", "", "a.b", "file", "é", key * 60))
        holder[new] = holder.pop(key)
    else:
        holder.reverse()


def _wrap(tables, holder, key, rng, places):
    value = holder[key]
    holder[key] = rng.choice(([value], {"value": value}, [value, value], [[value]], str(value)))


def _borrow(tables, holder, key, rng, places):
    """The value of another key."""
    other, name = rng.choice(places)
    with contextlib.suppress(KeyError, IndexError):
        if not _holds(other[name], holder):
            holder[key] = other[name]


def _holds(value, holder):
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return value is holder or any(_holds(v, holder) for v in inside)


def _repeat(tables, holder, key, rng, places):
    value = holder[key]
    if isinstance(value, list):
        holder[key] = value * rng.choice((2, 3, 40))
    elif isinstance(value, dict):
        holder[key] = [value, value]
    else:
        holder[key] = [value] * rng.choice((1, 2, 3))


def _add(tables, holder, key, rng, places):
    """Another section's key, or one that no section has."""
    tables_only = [(other, name) for other, name in places if isinstance(other[name], dict)]
    target = tables if not tables_only else (lambda at: at[0][at[1]])(rng.choice(tables_only))
    other, name = rng.choice(places)
    if not _holds(other[name], target):
        target[str(name)] = rng.choice((other[name], rng.choice(VALUES)))


def _changed_text(text, rng):
    lines = text.split("\n")
    k, at = rng.randrange(len(lines)), rng.randrange(len(text) + 1)
    junk = ("\0", "\ufeff", '"', "[", "]", "=", "#", "\t", "\r", "\\", "'''", "é", "1e5", "-", "\x7f", "[[x]]\n")
    junk = rng.choice(junk)
    other = rng.randrange(len(lines))
    return rng.choice(
        (
            lambda: text[:at] + junk + text[at:],
            lambda: text[:at] + text[at + rng.randint(1, 5) :],
            lambda: text[:at],
            lambda: "\ufeff" + text,
            lambda: "\n".join(lines[:k] + lines[k + 1 :]),
            lambda: "\n".join(lines[:k] + [lines[k]] + lines[k:]),
            lambda: "\n".join(lines[:k] + [lines[other]] + lines[k:]),
            lambda: text.replace("\n", "\r\n"),
        )
    )()


# -- what `swmodel check` answers --------------------------------------------------------------------------------------

FOREIGN = re.compile(
    r"Traceback|Run again with --debug|numpy|\bnp\.|\bjax\b|jaxlib|\bXLA\b|pydantic|tomllib|xarray|<class|object at 0x|"
    r"NoneType|\bdtype|\bndarray|\w+Error\b|\bErrno\b|not subscriptable|unhashable|unsupported operand|out of bounds|"
    r"broadcast|positional argument|Input should be|validation error|has no attribute|could not convert|codec|"
    r"Exceeds the limit|for integer string|maximum recursion|underlying|surrogate|embedded null"
)
NOISE = (RuntimeWarning, UserWarning)
LONGEST = 700  # characters of one sentence, the name of the file left out


class Hung(BaseException):
    """A command took too long."""


def outcome(path, seconds=60):
    """What `swmodel check PATH` answers, in this process.

    Args:
        path: of an experiment file.
        seconds: after which the check counts as hung; only in a main thread.

    Returns:
        (kind, message): "accepted", "refused" (every line is a sentence), or "unclear" with what is wrong first.
    """
    import jax

    before = jax.config.jax_enable_x64
    out, err = io.StringIO(), io.StringIO()
    try:
        with warnings.catch_warnings(record=True) as noise, contextlib.redirect_stdout(out):
            warnings.simplefilter("always")
            with contextlib.redirect_stderr(err), at_most(seconds):
                status = status_of(["check", str(path)])
    except Hung:
        return "unclear", f"no answer within {seconds} s"
    finally:
        jax.config.update("jax_enable_x64", before)
    warned = [f"{w.category.__name__}: {w.message}" for w in noise if issubclass(w.category, NOISE)]
    message = out.getvalue() + err.getvalue() if status == 0 else err.getvalue()
    wrong = _accepted_wrongly(message) if status == 0 else _refused_wrongly(status, message, path)
    if not wrong and warned:
        wrong = f"a warning of Python's: {warned[0]}"
    if wrong:
        return "unclear", f"{wrong}\n{message}"
    return ("accepted" if status == 0 else "refused"), message


def status_of(arguments):
    """The exit status of a command in this process, or the exception that came through."""
    from swmodel.__main__ import main

    try:
        main(arguments)
    except SystemExit as ended:
        return ended.code or 0
    except Exception as error:  # noqa: BLE001 - whatever comes through is what this module looks for
        return f"{type(error).__name__}: {error}"
    return 0


@contextlib.contextmanager
def at_most(seconds):
    """Raise Hung where the block takes longer; only in a main thread."""

    def stop(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _accepted_wrongly(message):
    """Why a plan is no good, or None."""
    if "no mistakes found" not in message:
        return "it was accepted without saying so"
    if found := re.search(r"(?<![\w.])[+-]?(nan|inf)(?![\w.])", message):
        return f"it was accepted with {found[0]!r}"
    return None


def _refused_wrongly(status, message, path):
    """Why an answer is not clear, or None."""
    if status != 2:
        return f"it ended with status {status!r}"
    message = "".join(line for line in message.splitlines(True) if not line.startswith("warning: "))
    if not message.startswith("error: "):
        return "it does not begin with 'error: '"
    if found := FOREIGN.search(message.replace(str(path), "FILE")):
        return f"it holds {found[0]!r}"
    lines = message.removeprefix("error: ").rstrip("\n").split("\n")
    lines = [line.strip() for line in (lines[1:] if re.fullmatch(r"\d+ mistakes:", lines[0]) else lines)]
    for line in lines:
        if str(path) not in line:
            return f"a line does not name the file: {line[:100]!r}"
        if len(line.replace(str(path), "FILE")) > LONGEST:
            return "a sentence is too long"
    return None

"""`swmodel new`: the experiments that come with the package, and copies of them to change.

An experiment may read a file of another one, as "../global_tide/etopo5_global_15min.nc", so that large data are in the
package once. A copy of the experiment has the file next to it, and names it so.
"""

import difflib
import re
import shutil
from pathlib import Path

from ..errors import ConfigError, DataError
from ..runtime.paths import experiments, make_folder, refusal

SUFFIXES = (".toml", ".py", ".nc", ".csv", ".md", ".txt")
ELSEWHERE = re.compile(r'"\.\./(\w+/[\w.]+)"')  # a file of another experiment
SENTENCE = re.compile(r".*?[.?](?= [A-Z])")  # the first of several sentences


def library() -> dict[str, list[Path]]:
    """{name: files} of the experiments. A folder is an experiment, and so are files with the same stem."""
    found = {}
    for entry in sorted(experiments().iterdir()):
        if entry.is_dir():
            files = [file for file in sorted(entry.rglob("*")) if file.suffix in SUFFIXES and file.is_file()]
            if any(file.suffix in (".toml", ".py") for file in files):
                found[entry.name] = files + _elsewhere(files)
        elif entry.suffix in (".toml", ".py") and entry.stem != "__init__":
            found.setdefault(entry.stem, []).append(entry)
    return found


def _elsewhere(files):
    """The files of other experiments that TOML files among `files` read."""
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix == ".toml"]
    return [experiments() / name for name in dict.fromkeys(sum(map(ELSEWHERE.findall, texts), []))]


def copy_experiment(name: str | None, folder: str | None, force: bool) -> None:
    """Copy experiment `name` to `folder` and print the next commands; list all experiments if `name` is None."""
    known = library()
    if name is None:
        _list(known)
        return
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
        raise ConfigError(f"there is no experiment {name!r}; {hint}")
    target, base = Path(name if folder is None else folder), experiments()
    base = base / name if (base / name).is_dir() else base
    copies = {
        file: target / (file.relative_to(base) if file.is_relative_to(base) else file.name) for file in known[name]
    }
    there = [copy for copy in copies.values() if copy.exists()]
    if there and not force:
        raise ConfigError(f"{', '.join(map(str, there))} would be replaced; choose another folder, or add --force.")
    make_folder(target)
    for file, copy in copies.items():
        make_folder(copy.parent)
        try:
            _copy(file, copy)
        except OSError as error:  # such as a full disk
            raise DataError(refusal(copy, error)) from error
        print(f"{copy}  ({file.stat().st_size / 1000:.0f} kB)")
    print("\n  ".join(["next:", *_next_commands(target / _main_first(name, known[name])[0].name)]))


def _copy(file, copy):
    """Copy a file; in a TOML file, files of other experiments are those next to it."""
    if file.suffix == ".toml":
        text = file.read_text(encoding="utf-8")
        copy.write_text(ELSEWHERE.sub(lambda found: f'"{Path(found[1]).name}"', text), encoding="utf-8")
    else:
        shutil.copyfile(file, copy)


def _next_commands(file):
    """The commands to try with an experiment's main file."""
    if file.suffix == ".py":
        return [f"python {file}"]
    verb = "invert" if "\n[inversion]" in file.read_text(encoding="utf-8") else "run"
    return [f"swmodel check {file}", f"swmodel {verb} {file} --plot", f"mpirun -n 2 swmodel {verb} {file} --plot"]


def _main_first(name, files):
    """The files of an experiment. The first one has the experiment's name, or the beginning of it."""
    return sorted(
        files,
        key=lambda file: (
            [".toml", ".py"].index(file.suffix) if file.suffix in (".toml", ".py") else 2,
            not name.startswith(file.stem),
        ),
    )


def _list(known):
    width = max(map(len, known)) + 2
    for name, files in known.items():
        print(f"{name:<{width}}{_headline(files)}")
    print("\nswmodel new NAME [DIR] copies one, with its data.")


def _headline(files):
    """The first sentence of the TOML file's first comment, or of the script's docstring."""
    described = _main_first(files[0].parent.name, sorted(files, key=lambda file: file.suffix != ".toml"))[0]
    lines = []
    for line in described.read_text(encoding="utf-8").splitlines():
        lines.append(line.strip("# \"'"))
        if not lines[-1] or lines[-1].endswith((".", "?")):
            break
    text = " ".join(lines).strip()
    first = SENTENCE.match(text)
    return first[0] if first else text

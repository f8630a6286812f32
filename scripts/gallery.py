"""Make the gallery of docs/gallery/index.md: run its commands, and write small images and the page.

    python scripts/gallery.py               # every entry of docs/gallery/gallery.toml, into output/gallery/NAME
    python scripts/gallery.py --only double_gyre,tidal_channel
    python scripts/gallery.py --page        # the page alone, from the manifest

Figures at full size stay in output/gallery/; docs/gallery/ gets a WebP of each, at most WIDTH pixels wide.
"""

import argparse
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
MANIFEST, PAGE = FOLDER / "gallery.toml", FOLDER / "index.md"
WIDTH = 720  # [pixels]
HEAD = """# Gallery

Figures of the experiments, each with the commands that make it in a checkout, and the time that they took on 2 cores.
`make gallery` makes all of them and this page again, and `make gallery GALLERY="--only NAME"` makes one. They are
listed in `docs/gallery/gallery.toml`.
"""


def entries() -> list[dict]:
    """The entries of the manifest, each with its commands for output/gallery/NAME."""
    found = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))["entry"]
    for entry in found:
        entry["commands"] = [line.replace("{folder}", f"output/gallery/{entry['name']}") for line in entry["commands"]]
    return found


def page(found: list[dict]) -> str:
    """The text of docs/gallery/index.md."""
    parts = [HEAD]
    for entry in found:
        name, minutes = entry["name"], entry["minutes"]
        took = f"{minutes} minute{'s' * (minutes != 1)}"
        shown = f"![{entry['title']}]({name}.webp)\n\n" if small_of(entry).exists() else ""
        commands = "\n".join(entry["commands"])
        parts.append(
            f"## {entry['title']}\n\n{shown}{entry['text']} More in [{Path(entry['page']).name}](../{entry['page']}). "
            f"About {took}.\n\n```\n{commands}\n```\n"
        )
    return "\n".join(parts)


def small_of(entry: dict) -> Path:
    """The path of an entry's small image."""
    return MANIFEST.parent / f"{entry['name']}.webp"


def shrink(figure: Path, small: Path) -> None:
    """Write a WebP of a figure, at most WIDTH pixels wide."""
    from PIL import Image

    with Image.open(figure) as image:
        image = image.convert("RGB")
        image.thumbnail((WIDTH, 4 * WIDTH), Image.Resampling.LANCZOS)
        image.save(small, format="webp", quality=82, method=6)


def make(entry: dict) -> str | None:
    """Run an entry's commands and make its small image; returns what went wrong, in a sentence."""
    folder = ROOT / "output" / "gallery" / entry["name"]
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    for line in entry["commands"]:
        print(f"$ {line}", flush=True)
        found = subprocess.run(shlex.split(line), cwd=ROOT, capture_output=True, text=True)
        if found.returncode:
            said = (found.stderr or found.stdout).strip().splitlines()
            return f"{entry['name']}: `{line}` ended with status {found.returncode}: {said[-1] if said else ''}"
    figure = folder / entry["figure"]
    if not figure.exists():
        return f"{entry['name']}: the commands made no {entry['figure']} in {folder}."
    shrink(figure, small_of(entry))
    print(f"{entry['name']}: {(time.monotonic() - begin) / 60:.1f} minutes, {figure.relative_to(ROOT)}", flush=True)
    return None


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of entries, with commas between")
    parser.add_argument("--page", action="store_true", help="write the page, and run nothing")
    given = parser.parse_args(arguments)
    found = entries()
    wanted = given.only.split(",") if given.only else [entry["name"] for entry in found]
    unknown = sorted(set(wanted) - {entry["name"] for entry in found})
    if unknown:
        names = ", ".join(entry["name"] for entry in found)
        print(f"gallery: there is no entry {', '.join(unknown)}; there are {names}.", file=sys.stderr)
        return 2
    failures = [] if given.page else [why for entry in found if entry["name"] in wanted if (why := make(entry))]
    PAGE.write_text(page(found), encoding="utf-8")
    print(*failures, sep="\n", end="\n" * bool(failures), file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

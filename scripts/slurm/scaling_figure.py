"""Table and figure of a scaling study, from the logs of scaling.sh.

    python scripts/slurm/scaling_figure.py scaling-perlmutter/*.log [-o scaling.png]

Speed-up is cells a second over those of the fewest ranks that were run, efficiency that over how many times as many
ranks; for strong scaling and weak alike. Of several runs of a point (a job that was queued again) the last one counts.
"""

import argparse
import re
import sys
from pathlib import Path

HEAD = re.compile(r"^scaling (.*)$", re.MULTILINE)
COLUMNS = (
    "scaling",
    "ranks",
    "nodes",
    "cells",
    "10^6 cells/s",
    "speed-up",
    "efficiency",
    "of bandwidth",
    "messages",
    "bytes",
)
POINT = re.compile(r"^bench (.*)$", re.MULTILINE)


def pairs(text):
    return dict(word.split("=", 1) for word in text.split())


def read(files):
    """({kind: {ranks: record}}, [what is missing, a sentence each]) of the logs."""
    points, missing = {}, []
    for file in files:
        text = Path(file).read_text(errors="replace")
        heads, records = HEAD.findall(text), POINT.findall(text)
        if not heads or not records:
            last = (text.strip().splitlines() or ["(empty)"])[-1]
            missing.append(f"{file} holds no finished bench; its last line: {last}")
            continue
        head, record = pairs(heads[-1]), pairs(records[-1])
        if head["ranks"] != record["ranks"]:
            missing.append(
                f"{file} was to run {head['ranks']} ranks, and {record['ranks']} ran: is srun this MPI's launcher?"
            )
            continue
        points.setdefault(head["kind"], {})[int(head["ranks"])] = {**record, **head}
    return points, missing


def efficiencies(kind, points):
    """[(ranks, record, cells a second, speed-up over the fewest ranks, efficiency)] in the order of ranks."""
    fewest = min(points)
    base = float(points[fewest]["cells_per_second"])
    rows = []
    for ranks in sorted(points):
        rate = float(points[ranks]["cells_per_second"])
        rows.append((ranks, points[ranks], rate, rate / base, rate / base * fewest / ranks))
    return rows


def table(points):
    """Markdown: a row each point."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|{'--:|' * (len(COLUMNS) - 1)}"]
    for kind, found in sorted(points.items()):
        for ranks, record, rate, speedup, efficiency in efficiencies(kind, found):
            lines.append(
                f"| {kind} | {ranks} | {record['hosts']} | {record['nx']} x {record['ny']} | {rate / 1e6:.4g} | "
                f"{speedup:.2f} | {efficiency:.2f} | {float(record['fraction_of_bandwidth']):.2f} | "
                f"{record['messages']} | {record['bytes']} |"
            )
    return "\n".join(lines)


def draw(points, path):
    """Efficiency over ranks, one line each kind."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
    for kind, found in sorted(points.items()):
        rows = efficiencies(kind, found)
        ranks = [row[0] for row in rows]
        left.plot(ranks, [row[3] for row in rows], "o-", label=kind)
        right.plot(ranks, [row[4] for row in rows], "o-", label=kind)
    every = sorted({ranks for found in points.values() for ranks in found})
    left.plot(every, [n / every[0] for n in every], "k--", linewidth=0.8, label="ideal")
    left.set(xscale="log", yscale="log", xlabel="ranks", ylabel=f"cells a second over those of {every[0]}")
    right.set(xscale="log", xlabel="ranks", ylabel="efficiency", ylim=(0, 1.1))
    right.axhline(1.0, color="k", linestyle="--", linewidth=0.8)
    for axes in (left, right):
        axes.set_xticks(every, [str(n) for n in every])
        axes.minorticks_off()
        axes.legend(frameon=False)
    machines = sorted({record["machine"] for found in points.values() for record in found.values()})
    figure.suptitle(f"swmodel on {', '.join(machines)}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", help="logs of scaling.sh")
    parser.add_argument("-o", "--output", help="a figure, .png or .pdf; needs matplotlib")
    given = parser.parse_args(arguments)
    points, missing = read(given.logs)
    for sentence in missing:
        print(f"scaling_figure.py: {sentence}", file=sys.stderr)
    if not points:
        sys.exit(1)
    print(table(points))
    if given.output:
        draw(points, given.output)


if __name__ == "__main__":
    main()

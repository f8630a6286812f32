"""The Tohoku source from the records of four gauges: misfits, position, and predictions of withheld gauges."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from harness import ROOT, NotMeasured

GAUGES = ("21418", "21401", "21413", "KPG1")
EPICENTRE = 142.369, 38.322
KILOMETRES = 111.2  # of a degree
PATIENCE = 5400.0  # [s]
NAMES = (
    "inversion_misfit_reduction",
    "inversion_kilometres_to_epicentre",
    "inversion_minutes",
    *(f"inversion_withheld_{name}" for name in GAUGES),
)


def measure(bench):
    """Misfits are mean((eta - y)^2) / var(y) of each gauge, without a source and with the one that was found."""
    folder = os.environ.get("OBSERVATIONS", "")
    if not folder:
        raise NotMeasured("left out without records: make bench OBSERVATIONS=DIR, with DIR/21418.csv and so on")
    missing = [name for name in GAUGES if not Path(folder, f"{name}.csv").is_file()]
    if missing:
        raise NotMeasured(f"OBSERVATIONS={folder} has no {', '.join(f'{name}.csv' for name in missing)}")
    path, minutes = invert(bench, os.path.abspath(folder))
    record(bench, path, minutes)


def invert(bench, records):
    """(the file that experiments/tohoku_2011/inversion.toml gives, minutes that it took)."""
    out, log = bench.folder / "inversion", bench.folder / "inversion.log"
    command = [
        sys.executable,
        "-c",
        "from swmodel.__main__ import main; main()",
        "invert",
        "--overwrite",
        "--withhold",
        str(ROOT / "experiments" / "tohoku_2011" / "inversion.toml"),
        "--observations",
        records,
        "--output",
        str(out),
    ]
    begun = time.monotonic()
    with open(log, "w") as output:
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=bench.environment(), stdout=output, stderr=subprocess.STDOUT, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"the inversion did not end within {PATIENCE / 60:g} minutes (see {log})") from None
    if done.returncode:
        raise NotMeasured(f"the inversion ended with status {done.returncode} (see {log})")
    return out / "inversion.nc", (time.monotonic() - begun) / 60


def record(bench, path, minutes):
    """Record the figures of the file."""
    import netCDF4

    with netCDF4.Dataset(path) as file:
        misfits = {role: misfit(file, role) for role in ("background", "analysis", "withheld")}
        unknowns, kilometres = file.dimensions["source"].size, to_epicentre(file)
    before, after = (sum(misfits[role].values()) for role in ("background", "analysis"))
    details = {"unknowns": unknowns, "before": misfits["background"], "after": misfits["analysis"]}
    bench.figure("inversion_misfit_reduction", 1.0 - after / before, at_least=0.9, **details)
    bench.figure("inversion_kilometres_to_epicentre", kilometres, at_most=150.0)
    bench.figure("inversion_minutes", minutes, at_most=30.0)
    for name in GAUGES:
        share = misfits["withheld"][name] / misfits["background"][name]
        bench.figure(f"inversion_withheld_{name}", share, at_most=1.0, misfit=misfits["withheld"][name])


def misfit(file, role):
    """{gauge: mean((eta - y)^2) / var(y)} of the model's elevations of a role."""
    column = lambda name: np.ma.filled(file[f"observation_{name}"][:], np.nan)  # noqa: E731
    names = np.array([str(name) for name in file["observation_gauge"][:]])
    observed, eta = column("observed"), column(role)
    found = {name: (observed[names == name], eta[names == name]) for name in GAUGES}
    return {name: float(np.mean((eta - y) ** 2) / np.var(y)) for name, (y, eta) in found.items()}


def to_epicentre(file):
    """Distance of the highest uplift [km]."""
    eta = np.ma.filled(file["initial_eta_analysis"][:], -np.inf)
    row, column = np.unravel_index(np.argmax(eta), eta.shape)
    east = (float(file["xh"][column]) - EPICENTRE[0]) * np.cos(np.deg2rad(EPICENTRE[1]))
    return KILOMETRES * float(np.hypot(east, float(file["yh"][row]) - EPICENTRE[1]))

"""Programs compile for an H100 that is not here, within the limits of what they may launch and move: `make gpu`.

The first visit to a machine with a GPU is rehearsed on the CPU.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.verify
def test_programs_compile_for_a_gpu_within_their_limits():
    cases = "ab2 ab3 forward_backward ssprk3 rk4 ab2_float64 flather tides storm tracer layers coast semi_implicit"
    cases += " rigid_lid integrating_factor gradient run run_outputs run_ensemble"
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu" / "run.py"), *cases.split(), "--size", "512x512"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]


@pytest.mark.verify
def test_a_visit_to_a_gpu_is_rehearsed(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "gpu_visit" / "visit.py"), "--rehearse", "--out", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    for system in ("coast", "layers"):
        assert float(parts["correct"]["figures"][f"worst_{system}_0"].split()[0]) == 0.0

"""A process of its own that draws the figures of a run: it imports matplotlib while the run steps.

`Drawing` starts `python -m swmodel.runtime.drawing`, without MPI. A thread of it imports at the lowest priority; Linux
gives each thread a priority of its own. When the files of the run are closed, the process reads one line of JSON, the
arguments of `postprocess.plot`, and draws at the priority of the run. It answers with one line: the paths of the
figures, or the reason why there are none. It ends when the run does, however that ends.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ..errors import SwmodelError
from .launchers import is_of_launcher

__all__ = ["Drawing"]

PRIORITY = 19  # of `nice`, the lowest
PATIENCE = 2.0  # [s] for imports not complete at the end of the run; then they begin anew at its priority


class Drawing:
    """The process that draws figures; use it in a `with` around the run, on the root alone."""

    def __init__(self) -> None:
        home = str(Path(__file__).resolve().parents[2])
        settings = ("OMPI_", "PRTE_")
        environment = {k: x for k, x in os.environ.items() if not (is_of_launcher(k) or k.startswith(settings))}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [home, environment.get("PYTHONPATH")]))
        answers, theirs = os.pipe()
        self._answers = os.fdopen(answers)
        self._process: Any = subprocess.Popen(
            [sys.executable, "-m", "swmodel.runtime.drawing", str(theirs)],
            stdin=subprocess.PIPE,
            pass_fds=(theirs,),
            env=environment,
            text=True,
        )  # in the session of the run: Linux compares priorities within sessions alone
        os.close(theirs)

    def draw(self, files: Sequence[str | Path], observations: str | Path | None = None) -> list[Path]:
        """The paths of the figures of output files, once they are drawn.

        Raises:
            SwmodelError: if they cannot be drawn, or the process has ended.
        """
        records = None if observations is None else str(observations)
        request = json.dumps({"files": [str(file) for file in files], "observations": records})
        answer = ""
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{request}\n")
            self._process.stdin.flush()
            answer = self._answers.readline()
        if not answer:
            status = self._process.wait()
            raise SwmodelError(
                f"the process that draws figures ended with status {status} before it had drawn them; all files of the "
                "run are complete: draw them with `swmodel plot`."
            )
        found = json.loads(answer)
        if "why" in found:
            raise SwmodelError(found["why"])
        return [Path(figure) for figure in found["figures"]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()


# -- in the process ---------------------------------------------------------------------------------------------------


def _end_with_the_run():
    """End this process when its standard input is closed, as the run does by ending."""
    while os.read(0, 1):
        pass
    os._exit(1)


def _request():
    """The line of the run, or None if it ended without one."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        line += byte
    return json.loads(line)


def _answer(request):
    from .resources import postprocess

    module = postprocess()
    try:
        files = [Path(file) for file in request["files"]]
        return {"figures": [str(path) for path in module.plot(files, observations=request["observations"])]}
    except module.PlotError as error:
        return {"why": str(error)}
    except Exception as error:  # noqa: BLE001  the run prints it as one sentence
        return {"why": f"the figures could not be drawn ({type(error).__name__}: {error}); the run is complete."}


def _import():
    """Import what figures need."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot  # noqa: F401
    import netCDF4  # noqa: F401
    import xarray  # noqa: F401


def _import_behind_the_run():
    with contextlib.suppress(OSError):
        os.nice(PRIORITY)
    _import()


def main() -> None:
    """The process: import what figures need, wait for the request, draw, and answer."""
    answers, request = int(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, whose end ends this process
    if request is None:
        import numpy  # noqa: F401  here: the threads of its library would have the low priority, too

        imports = threading.Thread(target=_import_behind_the_run, daemon=True)
        imports.start()
        request = _request()
        if request is None:
            os._exit(0)  # the run ended without a request, maybe during an import
        imports.join(PATIENCE)
        if imports.is_alive():
            again = sys.executable, "-m", "swmodel.runtime.drawing", str(answers), json.dumps(request)
            os.execv(sys.executable, again)
    _import()
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    os.write(answers, f"{json.dumps(_answer(request))}\n".encode())


if __name__ == "__main__":
    main()

"""The files of a run while it lasts: opened together, written one after another, and always closed."""

import contextlib
import shlex
from collections.abc import Iterator
from typing import Any

from ..errors import SwmodelError
from . import claim
from .collisions import check_apart
from .figures import remove_figures
from .schedule import GaugeOutput, MaximaOutput, Output, RestartOutput, run_attributes

__all__ = ["Run"]


class Run:
    """The outputs of one run, opened together and always closed.

    An error of a file while the run lasts (a full disk, a file that somebody removed) is kept until all ranks call
    `settle`. There they write a restart if they can, and end together.

    Args:
        outputs: the outputs of a Simulation.
    """

    def __init__(self, outputs: list[Output]) -> None:
        self.outputs, self.failed = outputs, {}  # {output: the SwmodelError that ended its writing}, on the root

    @classmethod
    @contextlib.contextmanager
    def opened(cls, simulation: Any, outputs: list[Output]) -> Iterator["Run"]:
        """A Run with its files open on the root; an error there is raised on every rank."""
        attributes = run_attributes(simulation)
        run = cls(outputs)
        try:
            simulation.communicator.from_root(lambda: _open(outputs, simulation, attributes))
            for output in outputs:
                if isinstance(output, GaugeOutput) and not output.continues(simulation):
                    run._attempt(output, output.begin, simulation)
                output.begun = True
            yield run
        finally:
            for output in outputs:
                output.close()

    def _attempt(self, output, action, *arguments):
        """Call action(*arguments), which communicates before it writes; keep an error of its writing for `settle`."""
        try:
            action(*arguments)
        except SwmodelError as error:
            self.failed.setdefault(output, error)
            with contextlib.suppress(SwmodelError, OSError, RuntimeError):
                output.close()

    def due(self, simulation: Any) -> None:
        """Write the files that are due at this step; collective."""
        for output in self.outputs:
            if output.is_due(simulation) and simulation.step != simulation.resumed_step:
                if isinstance(output, RestartOutput):
                    self.write_restart(simulation)
                else:
                    self._attempt(output, output.write, simulation)

    def chunk(self, simulation: Any, series: Any, count: int) -> None:
        """Hand the gauges' series of the last `count` steps to the outputs; collective."""
        for output in self.outputs:
            self._attempt(output, output.chunk, simulation, series, count)

    def next_step(self, simulation: Any) -> int | None:
        """The next step at which an output is due, or None."""
        return min((n for n in (o.next_step(simulation) for o in self.outputs) if n is not None), default=None)

    def finish(self, simulation: Any) -> None:
        """Write what is due at the end of a run, close all files, and raise the first error of any; collective."""
        for output in self.outputs:
            self._attempt(output, output.finish, simulation)
        for output in self.outputs:
            self._attempt(output, output.check)
        self.settle(simulation)
        for output in self.outputs:
            self._attempt(output, output.close)
        self.settle(simulation)

    def settle(self, simulation: Any) -> None:
        """If a file could not be written, write a restart and raise the error, on every rank; collective."""
        if not simulation.communicator.agree(bool(self.failed)):
            return
        self.write_restart(simulation)
        simulation.communicator.from_root(self._raise)

    def _raise(self):
        first = next(iter(self.failed.values()))
        raise type(first)(f"{first} {self.restart_hint()}") from first

    def write_restart(self, simulation: Any) -> None:
        """Write all records up to this step and then the restart, so that a resumed run leaves no gap; collective."""
        for output in self.outputs:
            self._attempt(output, output.flush)
        for output in self.outputs:
            if isinstance(output, RestartOutput):
                self._attempt(output, output.write, simulation)

    def restart_hint(self) -> str:
        """One sentence that names the newest restart and the command that continues from it."""
        for output in self.outputs:
            if isinstance(output, RestartOutput) and output.written is not None:
                command = f"swmodel resume {shlex.quote(str(output.path))}"
                return f"The newest restart is {output.path}, of step {output.written}: {command}"
        return "No restart was written."


def _open(outputs, simulation, attributes):
    """Claim all files, remove those of an earlier run, its restart first, and open them.

    A run that is stopped before its first restart therefore leaves no restart of another run. With `overwrite`, the
    figures of the files that are replaced are removed, too.
    """
    resumed = simulation.resumed_from
    known = [] if resumed is None else [("the restart that the run goes on from", resumed)]
    named = [(type(o).__name__.removesuffix("Output").lower(), o.path, isinstance(o, RestartOutput)) for o in outputs]
    check_apart([(what, path) for what, path, _ in named])
    check_apart([(what, path) for what, path, is_restart in named if not is_restart], known)
    claims = {}
    try:
        for output in outputs:
            rights = {"overwrite": simulation.overwrite, "append": output.continues(simulation)}
            claims[output] = claim(output.path, **rights)
        for output in sorted(outputs, key=lambda output: not isinstance(output, RestartOutput)):
            if isinstance(output, (RestartOutput, MaximaOutput)) and output.of_another_run(simulation):
                claims[output].path.unlink(missing_ok=True)
        for output in outputs if simulation.overwrite and resumed is None else ():
            remove_figures(output.path)
        for output in outputs:
            output.open(simulation, attributes, claims[output])
    except BaseException:
        for taken in claims.values():
            taken.release()
        raise

"""The files of a run while it lasts: opened together, written in turn, closed whatever happens."""

import contextlib
import shlex

from ..errors import SwmodelError
from . import claim
from .collisions import check_apart
from .figures import remove_figures
from .schedule import GaugeOutput, MaximaOutput, RestartOutput, run_attributes

__all__ = ["Run"]


class Run:
    """The outputs of one run, opened together and closed whatever happens.

    What goes wrong with a file while the run lasts (a full disk, a file that somebody removed) is kept until all ranks
    meet in `settle`: they write a restart if they can, and end together.
    """

    def __init__(self, outputs):
        self.outputs, self.failed = outputs, {}  # {output: the SwmodelError that ended its writing}, on the root

    @classmethod
    @contextlib.contextmanager
    def opened(cls, simulation, outputs):
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
        """action(*arguments), whose communication comes before its writing; a failure to write is kept for `settle`."""
        try:
            action(*arguments)
        except SwmodelError as error:
            self.failed.setdefault(output, error)
            with contextlib.suppress(SwmodelError, OSError, RuntimeError):
                output.close()

    def due(self, simulation):
        for output in self.outputs:
            if output.is_due(simulation) and simulation.step != simulation.resumed_step:
                if isinstance(output, RestartOutput):
                    self.write_restart(simulation)
                else:
                    self._attempt(output, output.write, simulation)

    def chunk(self, simulation, series, count):
        for output in self.outputs:
            self._attempt(output, output.chunk, simulation, series, count)

    def next_step(self, simulation):
        return min((n for n in (o.next_step(simulation) for o in self.outputs) if n is not None), default=None)

    def finish(self, simulation):
        """Write what the end of a run asks for, close all files, and raise what went wrong with any; collective."""
        for output in self.outputs:
            self._attempt(output, output.finish, simulation)
        for output in self.outputs:
            self._attempt(output, output.check)
        self.settle(simulation)
        for output in self.outputs:
            self._attempt(output, output.close)
        self.settle(simulation)

    def settle(self, simulation):
        """If a file could not be written, write a restart and raise the error, on every rank; collective."""
        if not simulation.communicator.agree(bool(self.failed)):
            return
        self.write_restart(simulation)
        simulation.communicator.from_root(self._raise)

    def _raise(self):
        first = next(iter(self.failed.values()))
        raise type(first)(f"{first} {self.restart_hint()}") from first

    def write_restart(self, simulation):
        """A restart, and first all that was recorded until its step, so that a resumed run leaves no gap."""
        for output in self.outputs:
            self._attempt(output, output.flush)
        for output in self.outputs:
            if isinstance(output, RestartOutput):
                self._attempt(output, output.write, simulation)

    def restart_hint(self):
        """One sentence on where to go on from."""
        for output in self.outputs:
            if isinstance(output, RestartOutput) and output.written is not None:
                command = f"swmodel resume {shlex.quote(str(output.path))}"
                return f"The newest restart is {output.path}, of step {output.written}: {command}"
        return "No restart was written."


def _open(outputs, simulation, attributes):
    """Open all files, once every one of them may be written; files of an earlier run go first, its restart above all.

    So a run that is stopped before its first restart leaves none of which it is not the author. With `overwrite` the
    figures of the files that are replaced go, too.
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

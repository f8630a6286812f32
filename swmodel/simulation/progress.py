"""Progress of a run, its speed and the time to go: a line that is redrawn, a bar in a notebook, or lines in a log."""

import os
import shutil
import sys
import time as clock
import uuid
from collections.abc import Callable
from typing import Literal, TextIO

from ..runtime import launch
from ..units import duration, rounded

REDRAW = 0.1  # [s]
LOG_EVERY = 10.0  # [s]
MEMORY = 10.0  # [s] over which the speed is averaged


class ProgressBar:
    """Called between chunks of steps as progress(step, last_step, model_seconds, wall_seconds); `close` ends the line.

    Speed and time to go are averages over the chunks during which no program was compiled. Neither is shown before the
    first such chunk.

    Args:
        stream: where to write; stdout unless given.
        width: columns of the terminal, None for a log file; that of `stream` unless given.
        compilations: returns the number of programs that have been compiled so far; JAX's count unless given.
    """

    reads_files = False  # a run need not wait for its files before it calls this

    def __init__(
        self,
        stream: TextIO | None = None,
        width: int | Literal["find"] | None = "find",
        compilations: Callable[[], int] | None = None,
    ) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.width = terminal_width(self.stream) if width == "find" else width
        self.begun, self.first, self.open = 0.0, 0, False
        self.last: tuple[float, int, float, int] | None = None  # time, step, model time and compilations before
        self.drawn = self.speed = self.dt = None
        if compilations is None:
            from ..runtime.compilation import compilations
        self._compilations = compilations

    def __call__(self, step: int, last_step: int, seconds: float, wall: float | None = None) -> None:
        now = clock.perf_counter() if wall is None else wall
        compiled = self._compilations()
        if self.last is None:
            self.begun, self.first = now, step
        else:
            self._measure(*self.last, now, step, seconds, compiled)
        self.last = now, step, seconds, compiled
        due = self.drawn is None or now - self.drawn >= (REDRAW if self.width else LOG_EVERY)
        if (due and step < last_step) or step == last_step:
            self.drawn = now
            self._draw(step, last_step, seconds, now)
        if step == last_step:
            self.close()

    def close(self) -> None:
        """End the line that is being redrawn."""
        if self.open:
            self.stream.write("\n")
            self.stream.flush()
            self.open = False

    def _measure(self, before, step_before, seconds_before, compiled_before, now, step, seconds, compiled):
        """Average the speed [steps s-1] over about MEMORY seconds of chunks without compilation."""
        if step == step_before:
            return
        self.dt = (seconds - seconds_before) / (step - step_before)
        if compiled > compiled_before:
            return
        took = max(now - before, 1e-9)
        newest = (step - step_before) / took
        weight = 1.0 if self.speed is None else min(took / MEMORY, 1.0)
        self.speed = weight * newest + (1.0 - weight) * (self.speed or 0.0)

    def _draw(self, step, last_step, seconds, now):
        share = 1.0 if last_step == self.first else (step - self.first) / (last_step - self.first)
        parts = [f"{100 * share:3.0f} %", f"model time {duration(seconds)}"]
        if self.speed and self.dt is not None and step < last_step:
            parts += [
                f"{self.speed:.3g} steps/s" if self.speed < 1000 else f"{self.speed:.0f} steps/s",
                f"{rounded(self.speed * self.dt)} x real time",
                f"{duration((last_step - step) / self.speed)} to go",
            ]
        elif step == last_step and step > self.first:
            took = max(now - self.begun, 1e-9)
            parts += [f"{rounded((step - self.first) * (self.dt or 0.0) / took)} x real time", f"took {duration(took)}"]
        self._show(share, "  ".join(parts))

    def _show(self, share, text):
        """Write the line, or draw it again with its bar."""
        if not self.width:
            self.stream.write(text + "\n")
        else:
            self.stream.write("\r" + self._with_bar(share, text, self.width))
            self.open = True
        self.stream.flush()

    def _with_bar(self, share, text, width):
        length = min(width - len(text) - 3, 40)
        done, left = ("━", "─") if "utf" in (getattr(self.stream, "encoding", "") or "").lower() else ("#", ".")
        bar = (done * round(share * length)).ljust(length, left) + "  " if length >= 5 else ""
        return (bar + text)[: width - 1].ljust(width - 1)


class NotebookBar(ProgressBar):
    """A ProgressBar in the output of a Jupyter cell, which is updated in place."""

    def __init__(self, compilations: Callable[[], int] | None = None) -> None:
        super().__init__(width=80, compilations=compilations)  # any width: it is redrawn every REDRAW seconds
        self.shown: str | None = None  # the identifier of the output

    def _show(self, share, text):
        from IPython.display import display, update_display  # pyright: ignore[reportMissingImports]

        bar = f'<progress value="{share:.4f}" max="1" style="width: 16em; vertical-align: middle"></progress>'
        bundle = {"text/html": f'{bar} <span style="margin-left: 0.5em">{text}</span>', "text/plain": text}
        if self.shown is None:
            self.shown = f"swmodel-{uuid.uuid4().hex}"
            display(bundle, raw=True, display_id=self.shown)
        else:
            update_display(bundle, raw=True, display_id=self.shown)

    def close(self) -> None:
        """Leave the bar as it is."""


def usual_bar() -> ProgressBar:
    """A NotebookBar if this process is the kernel of a notebook, else a ProgressBar."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return NotebookBar() if type(shell).__name__ == "ZMQInteractiveShell" else ProgressBar()


def terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal that shows `stream`, or None if it goes to a file or a pipe.

    mpirun gives each rank a pseudo-terminal, even where its own output goes to a file. Under mpirun the answer is
    therefore that for the output of mpirun itself.
    """
    if not (hasattr(stream, "isatty") and stream.isatty()):
        return None
    if launch.launcher() is None:
        return shutil.get_terminal_size().columns
    try:
        name = os.readlink(f"/proc/{os.getppid()}/fd/1")
        if not name.startswith(("/dev/pts/", "/dev/tty")):
            return None
        terminal = os.open(name, os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.get_terminal_size(terminal).columns or 80
        finally:
            os.close(terminal)
    except OSError:
        return None

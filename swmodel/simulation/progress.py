"""How far a run is, how fast, and when it will be done: one line that is redrawn, or a line now and then in a log."""

import os
import shutil
import sys
import time as clock

from ..runtime import launch
from ..units import day, hour, minute, year

__all__ = ["ProgressBar", "duration", "rounded", "terminal_width"]

REDRAW = 0.1  # [s]
LOG_EVERY = 10.0  # [s]
MEMORY = 10.0  # [s] over which the speed is averaged


class ProgressBar:
    """Called between chunks of steps as progress(step, last_step, model_seconds, wall_seconds); `close` ends the line.

    Args:
        stream: where to write; stdout unless given.
        width: columns of the terminal, None for a log file; found out unless given.
    """

    def __init__(self, stream=None, width="find"):
        self.stream = sys.stdout if stream is None else stream
        self.width = terminal_width(self.stream) if width == "find" else width
        self.begun = self.first = self.drawn = self.last = None
        self.speed, self.open = None, False

    def __call__(self, step, last_step, seconds, wall=None):
        now = clock.perf_counter() if wall is None else wall
        if self.begun is None:
            self.begun, self.first, self.dt = now, step, None
        else:
            self._measure(now, step, seconds)
        self.last = now, step, seconds
        due = self.drawn is None or now - self.drawn >= (REDRAW if self.width else LOG_EVERY)
        if (due and step < last_step) or step == last_step:
            self.drawn = now
            self._draw(step, last_step, seconds, now)
        if step == last_step:
            self.close()

    def close(self):
        """End the line that is being redrawn."""
        if self.open:
            self.stream.write("\n")
            self.stream.flush()
            self.open = False

    def _measure(self, now, step, seconds):
        before, step_before, seconds_before = self.last
        if step == step_before:
            return
        self.dt = (seconds - seconds_before) / (step - step_before)
        took = max(now - before, 1e-9)
        newest = (step - step_before) / took
        # The first chunk holds the compilation and tells nothing about the speed.
        known = self.speed is not None and step_before > self.first
        weight = min(took / MEMORY, 1.0) if known else 1.0
        self.speed = weight * newest + (1.0 - weight) * (self.speed or 0.0)

    def _draw(self, step, last_step, seconds, now):
        share = 1.0 if last_step == self.first else (step - self.first) / (last_step - self.first)
        parts = [f"{100 * share:3.0f} %", f"model time {duration(seconds)}"]
        if self.speed and step < last_step:
            parts += [
                f"{self.speed:.3g} steps/s" if self.speed < 1000 else f"{self.speed:.0f} steps/s",
                f"{rounded(self.speed * self.dt)} x real time",
                f"{duration((last_step - step) / self.speed)} to go",
            ]
        elif step == last_step and step > self.first:
            took = max(now - self.begun, 1e-9)
            parts += [f"{rounded((step - self.first) * (self.dt or 0.0) / took)} x real time", f"took {duration(took)}"]
        text = "  ".join(parts)
        if not self.width:
            self.stream.write(text + "\n")
        else:
            self.stream.write("\r" + self._with_bar(share, text))
            self.open = True
        self.stream.flush()

    def _with_bar(self, share, text):
        room = min(self.width - len(text) - 3, 40)
        done, left = ("━", "─") if "utf" in (getattr(self.stream, "encoding", "") or "").lower() else ("#", ".")
        bar = (done * round(share * room)).ljust(room, left) + "  " if room >= 5 else ""
        return (bar + text)[: self.width - 1].ljust(self.width - 1)


def duration(seconds):
    """Seconds in the units people would use: "2 h 05 min", "5 min", "3.2 years"."""
    seconds = max(float(seconds), 0.0)
    if seconds < minute:
        return f"{seconds:.2g} s"
    for limit, large, small in ((hour, "min", "s"), (2 * day, "h", "min")):
        if seconds < limit:
            unit = minute if large == "min" else hour
            whole, rest = divmod(round(seconds / unit * 60), 60)
            return f"{whole} {large}" + (f" {rest:02d} {small}" if rest else "")
    return (
        f"{_short(seconds / day)} days" if seconds < year else f"{_short(seconds / year)} year{'s' * (seconds != year)}"
    )


def _short(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def rounded(value):
    """Three digits of a number, or two and zeros if it is large."""
    return f"{value:.3g}" if value < 1000 else f"{float(f'{value:.2g}'):.0f}"


def terminal_width(stream):
    """Columns of the terminal that shows `stream`, or None if it goes to a file or a pipe.

    mpirun gives ranks a terminal of their own whatever becomes of its output, so there it is mpirun's own that counts.
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

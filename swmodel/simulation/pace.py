"""The number of steps in the next call of the compiled program (a chunk)."""

import collections
import statistics

__all__ = ["LONGEST_CHUNK", "Pace"]

SECONDS_PER_CHUNK = 1.0
LONGEST_CHUNK = 4096  # steps; also the length of the buffer that gauges fill


class Pace:
    """The number of steps that take about SECONDS_PER_CHUNK, from the median time of a step in recent chunks.

    The time of output does not count, nor does the first chunk, during which the program is compiled. Neither slow
    output nor one slow chunk therefore shortens the next ones.
    """

    def __init__(self) -> None:
        self.steps, self._warm = 8, False
        self._recent: collections.deque[float] = collections.deque(maxlen=5)

    def measure(self, count: int, seconds: float) -> int:
        """The length of the next chunk [steps] after one of `count` steps that took `seconds`."""
        if not self._warm:
            self._warm = True
            return self.steps
        self._recent.append(seconds / count)
        wanted = SECONDS_PER_CHUNK / max(statistics.median(self._recent), 1e-9)
        return max(int(min(wanted, self.steps * 4, LONGEST_CHUNK)), 1)

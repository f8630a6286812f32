"""How many steps the next compiled chunk has."""

import collections
import statistics

__all__ = ["LONGEST_CHUNK", "Pace"]

SECONDS_PER_CHUNK = 1.0
LONGEST_CHUNK = 4096  # steps; also the length of the buffer that gauges fill


class Pace:
    """How many steps take about SECONDS_PER_CHUNK, by the median of the last chunks' seconds a step.

    Only the time in which steps are computed counts. The first chunk, during which the program is compiled, does not.
    So neither slow output nor one slow chunk makes the next ones short.
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

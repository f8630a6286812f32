"""The number of steps in the next call of the compiled program (a chunk)."""

import collections
import statistics

from ..output.products.gauges import LONGEST_CHUNK

__all__ = ["Pace"]

LEAST_SECONDS, MOST_SECONDS = 1.0, 5.0  # of the steps of a chunk; a run responds to signals between chunks
SHARE = 0.2  # of a chunk's time that its fixed cost may take, if MOST_SECONDS suffice for that


class Pace:
    """The number of steps that take about LEAST_SECONDS, or longer if a chunk has a cost c that no step adds to.

    The time of a chunk of n steps is c + n s. Two chunks of which one has at least twice as many steps give c. When
    none of the recent ones has, the next one has twice as many, or half as many after a long one: one chunk that was
    slow for another reason would otherwise be mistaken for a step's time for ever, and chunks stay short. The step's
    time s is the median over recent chunks. The steps of a chunk take c (1 - SHARE) / SHARE, and so the fixed cost
    about SHARE of the time, within LEAST_SECONDS to MOST_SECONDS and up to LONGEST_CHUNK steps.

    The time of output does not count, nor does the first chunk, during which the program is compiled. Neither slow
    output nor one slow chunk therefore shortens the next ones.
    """

    def __init__(self) -> None:
        self.steps, self._warm = 8, False
        self._fixed = 0.0  # [s], c
        self._recent: collections.deque[tuple[int, float]] = collections.deque(maxlen=5)

    def measure(self, count: int, seconds: float) -> int:
        """The length of the next chunk [steps] after one of `count` steps that took `seconds`."""
        if not self._warm:
            self._warm = True
            return self.steps
        self._recent.append((count, seconds))
        (fewest, short), (most, long) = min(self._recent), max(self._recent)
        if unlike := most >= 2 * fewest:
            fixed = short - (long - short) / (most - fewest) * fewest
            self._fixed = min(max(fixed, 0.0), *(took for _, took in self._recent))
        step = statistics.median((took - self._fixed) / n for n, took in self._recent)
        wanted = min(max(LEAST_SECONDS, self._fixed * (1.0 - SHARE) / SHARE), MOST_SECONDS) / max(step, 1e-9)
        if not unlike and seconds < 2.0 * LEAST_SECONDS:
            wanted = max(wanted, 2.0 * count)
        elif not unlike:
            wanted = min(wanted, count // 2 or 2)
        return max(int(min(wanted, self.steps * 4, LONGEST_CHUNK)), 1)

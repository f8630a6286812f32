"""Signals, noted when they come and obeyed between chunks of steps, when all ranks can agree on them.

SIGUSR1 asks for a restart and the run goes on; SIGINT and SIGTERM ask for a restart and the end. A second SIGINT or
SIGTERM ends the process at once.
"""
import signal
import threading

__all__ = ["SignalWatch"]


class SignalWatch:
    """Catches signals inside a `with` block and restores the earlier handlers after it; main thread only."""

    # The order is that of urgency: ranks agree by taking the largest index.
    WATCHED = (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self._pending, self._earlier = 0, {}

    @classmethod
    def meaning(cls, request):
        """(the signal, whether it ends the run) of what `take` returned."""
        number = cls.WATCHED[request - 1]
        return number, number != signal.SIGUSR1

    def take(self):
        """1 + the index in WATCHED of the most urgent signal since the last call; 0 for none."""
        pending, self._pending = self._pending, 0
        return pending

    def _note(self, number, frame):
        request = 1 + self.WATCHED.index(number)
        if self.meaning(request)[1]:
            signal.signal(number, self._earlier[number])  # the next one is not waited for
        self._pending = max(self._pending, request)

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._earlier = {number: signal.signal(number, self._note) for number in self.WATCHED}
        return self

    def __exit__(self, *exception):
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

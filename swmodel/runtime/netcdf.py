"""The lock that a thread holds while it calls the netCDF library, which is not thread-safe.

The thread that writes a run's files holds it during each write, and the run's own thread while it opens and closes
files and reads a record of a forcing in the middle of the run. A signal ends the process only while the lock is free.
"""

import threading

__all__ = ["LOCK"]

LOCK = threading.RLock()

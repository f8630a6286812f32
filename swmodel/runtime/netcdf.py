"""The lock that a thread holds while it calls the netCDF library, which is not thread-safe.

The thread that writes a run's files holds it during each write. The run's own thread holds it while it opens and closes
files, and while it reads a record of a forcing during the run. A signal ends the process only while the lock is free.
"""

import threading

LOCK = threading.RLock()

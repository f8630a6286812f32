"""How long runs take: `--profile DIR`, a trace and a memory profile by JAX's profiler, and timing.json.

timing.json in the folder of the output has the wall times of a run, an entry for each start or resumption.
"""

import contextlib
import json
import os
import time as clock
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..output import replacing
from ..runtime.paths import make_folder

LONGEST = 5.0  # [s] of a compiled run after which the trace ends: minutes of it would be gigabytes


class Profile:
    """A trace that begins with `start`. If called between the chunks of a run, it ends LONGEST after the first one."""

    def __init__(self, folder: str | os.PathLike):
        self.folder, self.calls, self.compiled, self.open = Path(folder), 0, None, False

    def start(self) -> None:
        import jax

        make_folder(self.folder)
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # Python only waits for the device, which would fill the trace
        jax.profiler.start_trace(str(self.folder), create_perfetto_trace=True, profiler_options=options)
        self.open = True

    def __call__(self, *progress: object) -> None:
        self.calls += 1
        if self.calls == 2:  # the first call is before the first chunk, which includes the compilation
            self.compiled = clock.perf_counter()
        if self.compiled is not None and clock.perf_counter() - self.compiled > LONGEST:
            self.stop()

    def stop(self) -> None:
        if self.open:
            import jax

            self.open = False
            jax.profiler.stop_trace()
            jax.profiler.save_device_memory_profile(str(self.folder / "memory.prof"))

    def sentence(self) -> str:
        """A sentence on the files and on how to open them."""
        traces = sorted(self.folder.glob("plugins/profile/*/perfetto_trace.json.gz"))
        trace = traces[-1] if traces else self.folder
        return (
            f"profile: drop {trace} on https://ui.perfetto.dev (or tensorboard --logdir {self.folder}); "
            f"memory: go tool pprof -http=: {self.folder / 'memory.prof'}"
        )


@contextlib.contextmanager
def profiled(folder: str | os.PathLike | None, root: bool = True) -> Iterator[Profile | None]:
    """A Profile of the block on the root's device, or None without a folder. Prints how to open the files."""
    profile = Profile(folder) if folder is not None and root else None
    if profile is None:
        yield None
        return
    profile.start()
    try:
        yield profile
    finally:
        profile.stop()
    print(profile.sentence())


# -- wall times -------------------------------------------------------------------------------------------------------

FILE = "timing.json"


def remove_entries(folder: Path) -> None:
    """Remove the file of an earlier run, which a new one is about to replace."""
    (folder / FILE).unlink(missing_ok=True)


def append_entry(folder: Path, leg: Mapping[str, object]) -> None:
    """Append an entry.

    Args:
        folder: the folder of the output files.
        leg: `steps`, `model_seconds` and `wall_seconds` of the steps, compilation included, `first_step_after_seconds`
            since the process was started (None if no step was taken), `ranks`, and `from_step`.
    """
    path = folder / FILE
    try:
        legs = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        legs = []
    with replacing(path) as temporary:
        Path(temporary).write_text(json.dumps([*(legs if isinstance(legs, list) else []), leg], indent=1) + "\n")

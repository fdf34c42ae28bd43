"""Where the process starts: signals are handled before anything that takes time is imported."""

import ctypes
import gc
import os
import sys
from contextlib import suppress

from murmurlog.cli import stop

# Of the GNU C library's mallopt: sizes up to which freed memory is used again instead of going back to the system,
# and one heap for all threads, so that each uses what another one freed: a sixth less memory at 20 M rows.
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = (-1, 300_000_000), (-3, 100_000_000), (-8, 1)


def main() -> None:
    """Runs the command line."""
    stop.listen()
    # Only its owner may write what a command makes: whoever writes settings decides what is published.
    os.umask(os.umask(0o022) | 0o022)
    try:
        # Imports make many objects and no garbage: 0.1 s of a small release.
        gc.set_threshold(100_000)
        # Threads of OpenBLAS wait for work by spinning, and no command has work for them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with suppress(OSError, AttributeError):  # another C library
            for parameter, value in (TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX):
                ctypes.CDLL(None).mallopt(parameter, value)
        from murmurlog.cli.main import main as run

        run()
    except stop.Stopped as error:  # while it was imported
        sys.stderr.write(f"{stop.sentence()}\n")
        sys.exit(stop.exit_code(error))
    finally:
        stop.clean_up()
        stop.leave()

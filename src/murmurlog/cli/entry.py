"""Where the process starts: signals are handled before anything that takes time is imported."""

import gc
import os
import sys

from murmurlog.cli import stop


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
        # In a virtual machine NumPy's huge pages cost more than they save: 3 of 6 s that the kernel took at 20 M rows.
        os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
        from murmurlog.cli.main import main as run

        run()
    except stop.Stopped as error:  # while it was imported
        sys.stderr.write(f"{stop.sentence()}\n")
        sys.exit(stop.exit_code(error))
    finally:
        stop.clean_up()
        stop.leave()

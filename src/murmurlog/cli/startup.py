"""What a command does without, so that a small release does not wait for imports."""

import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

UNUSED = ("f2py", "testing")


class _Hidden(MetaPathFinder):
    """Hides pandas from `import`."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def skip_pandas() -> None:
    """Keeps Arrow from importing pandas, which it does with the first array that it makes of Python values.

    Arrow asks once. No command gets a data frame; what needs pandas later can still import it.
    """
    if "pyarrow" not in sys.modules or "pandas" in sys.modules:
        return
    import pyarrow as pa

    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


def import_special() -> None:
    """Imports scipy.special without modules of NumPy that SciPy copies a reference to and does not use.

    Each is an empty module meanwhile; what needs one later can still import it.
    """
    if "scipy.special" in sys.modules:
        return
    import numpy as np

    stubs = {name: ModuleType(name) for name in UNUSED if f"numpy.{name}" not in sys.modules}
    for name, stub in stubs.items():
        setattr(np, name, stub)
    try:
        import scipy.special  # noqa: F401
    finally:
        for name, stub in stubs.items():
            if getattr(np, name) is stub:
                delattr(np, name)

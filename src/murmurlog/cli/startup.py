"""What a command does without, so that a small release does not wait for imports."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any


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

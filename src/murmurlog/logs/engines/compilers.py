"""Imports of Ibis that are put off until they are needed: a small release spends most of its time on imports."""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGE = "ibis.backends.sql.compilers"


def load_compilers_on_demand() -> None:
    """Lets Ibis load the SQL compiler of the engine in use, not those of 20 databases.

    The package is there with all its names. A name that is not one of its modules runs the package's own
    code, as an ordinary import would have done at once.
    """
    if PACKAGE in sys.modules:
        return
    parent = importlib.import_module(PACKAGE.rpartition(".")[0])
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.loader is None:  # another Ibis: let its own import say what is wrong
        return
    package, loader = importlib.util.module_from_spec(spec), spec.loader
    package.__getattr__ = lambda name: _find(package, loader, name)  # type: ignore[method-assign]
    sys.modules[PACKAGE] = package
    parent.compilers = package  # type: ignore[attr-defined]


def _find(package: ModuleType, loader: Any, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return importlib.import_module(f"{PACKAGE}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{PACKAGE}.{name}":
            raise
    vars(package).pop("__getattr__", None)
    loader.exec_module(package)
    return getattr(package, name)

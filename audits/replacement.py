"""Replaces a function of the package while an audit observes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    """While this lasts, the attribute has another value; in this process only."""
    before = vars(target)[name]  # as it is stored: a property stays a property
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, before)

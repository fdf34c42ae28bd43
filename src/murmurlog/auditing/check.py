"""What a check of a bundle comes to, and how one says that something does not hold."""

from dataclasses import dataclass

ROUNDING = 1 + 1e-9  # sums of floating-point numbers


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at. `corrupt` failures mean the bundle is not what was written."""

    name: str
    ok: bool
    message: str
    corrupt: bool = False


class Failed(Exception):
    """Something that a bundle states does not hold."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Failed(message)

"""The result of one check of a bundle, and the exception by which a check fails."""

from dataclasses import dataclass
from typing import TypeVar

from murmurlog import __version__
from murmurlog.bundle.certificate import Certificate

T = TypeVar("T")

ROUNDING = 1 + 1e-9  # tolerance for sums of floating-point numbers


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check. A `corrupt` failure means that the files are damaged."""

    name: str
    ok: bool
    message: str
    corrupt: bool = False


class CheckFailed(Exception):
    """A statement of a bundle does not hold."""


def require(condition: bool, message: str) -> None:
    """Raises unless the condition holds."""
    if not condition:
        raise CheckFailed(message)


def require_value(value: T | None, message: str) -> T:
    """The value; raises if there is none."""
    if value is None:
        raise CheckFailed(message)
    return value


def is_same_version(certificate: Certificate) -> bool:
    """Whether this version wrote the bundle, so that the wording of its cards is known exactly."""
    return certificate.murmurlog == __version__

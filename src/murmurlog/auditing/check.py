"""What a check of a bundle comes to, and how one says that something does not hold."""

from dataclasses import dataclass

from murmurlog import __version__
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.certificate_schema import FORMAT

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


def is_own(certificate: Certificate) -> bool:
    """Whether this very version wrote the bundle, so that it words it as it would word it now."""
    return certificate.murmurlog == __version__ and certificate.format == FORMAT

"""Parses and checks the parameters of a request; a wrong value raises an error, never a guess."""

from collections.abc import Callable, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.keys import normalise
from murmurlog.bundle.table_rules import MOST_MARKS, marks
from murmurlog.web.bundles import ServedBundle, ServedBundles

WILD = "*?"  # match any text and any character in a pattern
MOST_LETTERS = 12_000  # of a text, before and after normalisation


def bad_request(message: str, status: int = 400) -> HTTPException:
    """The error that becomes an error page with this message."""
    return HTTPException(status, message)


def prefix(request: Request, name: str, certificate: Certificate) -> str:
    """A text as keys of the release are written.

    A trailing space is kept: it marks the end of a word.
    """
    return _clean(request, name, MOST_LETTERS, certificate.clean)


def pattern(request: Request, name: str, certificate: Certificate, *, most: int) -> str:
    """A pattern as `prefix`, but only normalised if it has * or ?, which canonical keys may lose."""

    def clean(value: str) -> str:
        if any(sign in value for sign in WILD):
            return normalise(value, version=certificate.normaliser) or ""
        return certificate.clean(value)

    return _clean(request, name, most, clean)


def _clean(request: Request, name: str, most: int, clean_text: Callable[[str], str]) -> str:
    """A cleaned text; raises if cleaning it would take long."""
    value = request.query_params.get(name, "")
    _limit(name, value, most)
    if len(value) > MOST_MARKS and not value.isascii() and marks(value) > MOST_MARKS:
        raise bad_request(f"{name} has more than {MOST_MARKS:,} combining marks on one letter")
    clean = clean_text(value)
    _limit(name, clean, most)  # NFKC turns one letter into up to eighteen
    return clean + " " * bool(clean and value[-1].isspace())


def _limit(name: str, value: str, most: int) -> None:
    if len(value) > most:
        raise bad_request(f"{name} has {len(value):,} letters; at most {most:,} are allowed")


def integer(request: Request, name: str, default: int, *, least: int, most: int) -> int:
    """A whole number within bounds."""
    digits = request.query_params.get(name, "")
    if not digits:
        return default
    digits = digits.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise bad_request(
            f"{name} must be a whole number from {least} to {most:,}, not {digits[:40]!r}"
        )
    if not least <= int(digits) <= most:
        raise bad_request(f"{name} must lie between {least} and {most:,}, not {int(digits):,}")
    return int(digits)


def one_of(request: Request, name: str, default: str, choices: Sequence[str]) -> str:
    """One of several words."""
    value = request.query_params.get(name) or default
    if value not in choices:
        raise bad_request(f"{name} must be one of {', '.join(choices)}, not {value[:40]!r}")
    return value


def bundle(
    request: Request, bundles: ServedBundles, name: str = "b", default: ServedBundle | None = None
) -> ServedBundle:
    """The requested bundle."""
    value = request.query_params.get(name)
    if not value:
        return default or bundles.first
    if value not in bundles.by_name:
        names = ", ".join(bundles.by_name)
        raise bad_request(f"there is no bundle {value[:60]!r} here: {names}", 404)
    return bundles.by_name[value]

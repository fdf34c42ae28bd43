"""Parses and checks the parameters of a request; a wrong value raises an error, never a guess."""

from collections.abc import Callable, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.keys import normalise
from murmurlog.bundle.table_rules import MOST_MARKS, marks
from murmurlog.web.bundles import Book, Shelf

WILD = "*?"  # match any text and any character in a pattern
MOST_LETTERS = 12_000  # of a text, before and after normalisation


def bad_request(message: str, status: int = 400) -> HTTPException:
    """The error that becomes an error page with this message."""
    return HTTPException(status, message)


def text(request: Request, name: str, *, most: int = MOST_LETTERS) -> str:
    """A text as given; raises if normalising it would take long."""
    given = request.query_params.get(name, "")
    _limit(name, given, most)
    if len(given) > MOST_MARKS and not given.isascii() and marks(given) > MOST_MARKS:
        raise bad_request(f"{name} has more than {MOST_MARKS:,} combining marks on one letter")
    return given


def prefix(request: Request, name: str, certificate: Certificate) -> str:
    """A text as keys of the release are written.

    A trailing space is kept: it marks the end of a word.
    """
    return _clean(request, name, MOST_LETTERS, certificate.clean)


def pattern(request: Request, name: str, certificate: Certificate, *, most: int) -> str:
    """A pattern as `prefix`, but only normalised if it has * or ?, which canonical keys may lose."""

    def clean(given: str) -> str:
        wild = any(sign in given for sign in WILD)
        return (
            normalise(given, version=certificate.normaliser) or ""
            if wild
            else certificate.clean(given)
        )

    return _clean(request, name, most, clean)


def _clean(request: Request, name: str, most: int, clean_text: Callable[[str], str]) -> str:
    given = text(request, name, most=most)
    clean = clean_text(given)
    _limit(name, clean, most)  # NFKC turns one letter into up to eighteen
    return clean + " " * bool(clean and given[-1].isspace())


def _limit(name: str, given: str, most: int) -> None:
    if len(given) > most:
        raise bad_request(f"{name} has {len(given):,} letters; at most {most:,} are allowed")


def integer(request: Request, name: str, usual: int, *, least: int, most: int) -> int:
    given = request.query_params.get(name)
    if given in (None, ""):
        return usual
    digits = str(given).strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise bad_request(
            f"{name} must be a whole number from {least} to {most:,}, not {digits[:40]!r}"
        )
    if not least <= int(digits) <= most:
        raise bad_request(f"{name} must lie between {least} and {most:,}, not {int(digits):,}")
    return int(digits)


def one_of(request: Request, name: str, usual: str, among: Sequence[str]) -> str:
    given = request.query_params.get(name) or usual
    if given not in among:
        raise bad_request(f"{name} must be one of {', '.join(among)}, not {given[:40]!r}")
    return given


def book(request: Request, shelf: Shelf, name: str = "b", usual: Book | None = None) -> Book:
    """The requested bundle."""
    given = request.query_params.get(name)
    if not given:
        return usual or shelf.first
    if given not in shelf.books:
        raise bad_request(f"there is no bundle {given[:60]!r} here: {', '.join(shelf.books)}", 404)
    return shelf.books[given]

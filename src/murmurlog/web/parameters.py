"""What a request asks for, read with care: a wrong value is told to the reader, never guessed."""

import math
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from murmurlog.bundle.keys import normalise
from murmurlog.bundle.table_rules import MOST_MARKS, marks
from murmurlog.web.bundles import Book, Shelf

MOST_LETTERS = 12_000  # of a text, as it is written and as it is normalised


def wrong(words: str, status: int = 400) -> HTTPException:
    """The error that becomes a page with these words."""
    return HTTPException(status, words)


def text(request: Request, name: str, *, most: int = MOST_LETTERS) -> str:
    """A text as it was written, if it can be normalised in little time."""
    given = request.query_params.get(name, "")
    _limit(name, given, most)
    if len(given) > MOST_MARKS and not given.isascii() and marks(given) > MOST_MARKS:
        raise wrong(f"{name} has more than {MOST_MARKS:,} marks on one letter")
    return given


def begun(request: Request, name: str, *, version: int, most: int = MOST_LETTERS) -> str:
    """A text as a release has it, by its version of the rules. A space at the end is kept: it says a word is finished."""
    given = text(request, name, most=most)
    clean = normalise(given, version=version) or ""
    _limit(name, clean, most)  # one letter may become eighteen
    return clean + " " * bool(clean and given[-1].isspace())


def _limit(name: str, given: str, most: int) -> None:
    if len(given) > most:
        raise wrong(f"{name} has {len(given):,} letters; at most {most:,} are looked at")


def whole(request: Request, name: str, usual: int, *, least: int, most: int) -> int:
    given = request.query_params.get(name)
    if given in (None, ""):
        return usual
    digits = str(given).strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise wrong(f"{name} must be a whole number from {least} to {most:,}, not {digits[:40]!r}")
    if not least <= int(digits) <= most:
        raise wrong(f"{name} must lie between {least} and {most:,}, not {int(digits):,}")
    return int(digits)


def number(request: Request, name: str, usual: float, *, least: float, most: float) -> float:
    given = request.query_params.get(name)
    if given in (None, ""):
        return usual
    try:
        value = float(str(given)[:40])
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise wrong(f"{name} must be a number from {least:g} to {most:g}, not {str(given)[:40]!r}")
    return value


def one_of(request: Request, name: str, usual: str, among: Sequence[str]) -> str:
    given = request.query_params.get(name) or usual
    if given not in among:
        raise wrong(f"{name} must be one of {', '.join(among)}, not {given[:40]!r}")
    return given


def book(request: Request, shelf: Shelf, name: str = "b", usual: Book | None = None) -> Book:
    """The bundle that is meant."""
    given = request.query_params.get(name)
    if not given:
        return usual or shelf.first
    if given not in shelf.books:
        raise wrong(f"there is no bundle {given[:60]!r} here: {', '.join(shelf.books)}", 404)
    return shelf.books[given]

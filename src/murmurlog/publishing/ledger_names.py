"""Names of sources in a ledger: which are valid, which are known, which resemble one another."""

import difflib
import sqlite3
import unicodedata
from collections.abc import Sequence

from murmurlog.bundle.keys import normalise, odd_line
from murmurlog.errors import Refused, UsageError
from murmurlog.publishing.ledger_records import read_names

LIKE = 0.65  # difflib's ratio from which two names count as similar
MOST_NAMES = 3  # of known sources in a message
MOST_LISTED = 10  # the same, where the owner has to choose one


def check_name(source: str) -> None:
    """Raises unless the name is one plain line with visible characters."""
    if odd_line([source]) is not None or normalise(source) is None:
        raise UsageError(
            f"{source!r:.60} is not a valid name of a source: write one plain line with visible characters"
        )


def known_name(db: sqlite3.Connection, source: str) -> str:
    """The account of a name: a known one, or a new one that does not resemble a known one.

    A misspelled name must not open a second account with its own budget. Older ledgers may have such
    pairs; each account is found by its exact name.
    """
    new = unicodedata.normalize("NFC", source).strip()
    names = read_names(db)
    if same := next((name for name in (source, new) if name in names), None):
        return same
    if twin := next((name for name in names if normalise(name) == normalise(new)), None):
        raise UsageError(
            f"the ledger has no source {new!r:.60}, but it has {twin!r:.60}: use that name. Names of "
            "two sources must differ in more than case, spaces and forms of letters."
        )
    return new


def check_new(source: str, names: Sequence[str], *, ledger: str) -> None:
    """Refuses a source beside those that a ledger has: users of one of them need no second budget."""
    if names:
        raise Refused(
            f"{ledger} has no source {source!r:.60}; it has {list_names(names)}. A new source has a budget of its "
            "own, so\n  it must be about other users. Name the source of these users with --source, or give "
            "--new-source."
        )


def list_names(names: Sequence[str]) -> str:
    """Names of sources in a message."""
    more = [f"{len(names) - MOST_LISTED} more"] if len(names) > MOST_LISTED else []
    return ", ".join([f"{name!r:.60}" for name in names[:MOST_LISTED]] + more)


def similar_names(source: str, names: Sequence[str]) -> list[str]:
    """The names that resemble this one, the most similar first."""
    by_key = {normalise(name) or name: name for name in names if name != source}
    keys = difflib.get_close_matches(normalise(source) or source, by_key, MOST_NAMES, LIKE)
    return [by_key[key] for key in keys]

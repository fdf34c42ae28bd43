"""Names of sources in a ledger: which are valid, which are known, which resemble one another."""

import difflib
import sqlite3
import unicodedata
from collections.abc import Sequence

from murmurlog.bundle.keys import normalise, odd_line
from murmurlog.errors import UsageError
from murmurlog.publishing.ledger_records import read_names

LIKE = 0.65  # difflib's ratio from which two names count as similar
MOST_NAMES = 3  # of known sources in a message


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
    known = read_names(db)
    if found := next((name for name in (source, new) if name in known), None):
        return found
    if twin := next((name for name in known if normalise(name) == normalise(new)), None):
        raise UsageError(
            f"the ledger has no source {new!r:.60}, but it has {twin!r:.60}: use that name. Names of "
            "two sources must differ in more than case, spaces and forms of letters."
        )
    return new


def similar_names(source: str, names: Sequence[str]) -> list[str]:
    """The names that resemble this one, the most similar first."""
    by_key = {normalise(name) or name: name for name in names if name != source}
    found = difflib.get_close_matches(normalise(source) or source, by_key, MOST_NAMES, LIKE)
    return [by_key[key] for key in found]

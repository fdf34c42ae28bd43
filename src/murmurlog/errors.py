"""Everything murmurlog raises on purpose, each with the exit code the command line gives it.

    MurmurlogError              70  something of ours is broken
    +-- UsageError (ValueError)  2  a parameter or the configuration is wrong
    |   +-- UnknownTable (KeyError) a bundle has no table of this name
    +-- OtherVersion             2  a bundle needs another version of murmurlog
    +-- Refused                  3  refused for privacy: budget, unknown bound, no guarantee
    +-- InputError (ValueError)  4  the log cannot be used as it is
    +-- EngineError              5  an engine is missing or fails its self-test
    +-- DiskError                5  what was made could not be written
    +-- BundleError              6  a bundle is corrupt or not a bundle

A message says what is wrong, what was given and what to do. It may name a file, a column, a row
number or a parameter; never the content of a log.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The end of a message that points out the nearest known name, if one is near."""
    near = get_close_matches(given, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class MurmurlogError(Exception):
    """The root: catch this to catch everything murmurlog raises on purpose."""

    exit_code = 70
    word = "internal"


class UsageError(MurmurlogError, ValueError):
    """A parameter, a flag or the configuration is wrong."""

    exit_code = 2
    word = "usage"


class UnknownTable(UsageError, KeyError):
    """A bundle has no table of this name."""

    __str__ = Exception.__str__  # that of KeyError would quote the sentence


class OtherVersion(MurmurlogError):
    """A bundle was made by something that this version does not know, so it says nothing about it."""

    exit_code = 2
    word = "version"


class Refused(MurmurlogError):
    """The request is well formed, but carrying it out would break a privacy promise."""

    exit_code = 3
    word = "refused"


class InputError(MurmurlogError, ValueError):
    """The log cannot be read or used as it is."""

    exit_code = 4
    word = "input"


class EngineError(MurmurlogError):
    """An engine or an optional part is missing, or an engine gives answers we cannot trust."""

    exit_code = 5
    word = "engine"


class DiskError(MurmurlogError):
    """What was made could not be written; a budget that was reserved stays booked."""

    exit_code = 5
    word = "disk"


class BundleError(MurmurlogError):
    """A bundle is corrupt, incomplete or not a bundle at all."""

    exit_code = 6
    word = "bundle"

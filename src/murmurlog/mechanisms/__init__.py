"""The mechanisms by name. To add one: a file, a line here, a docs page, an exact law, a broken twin."""

import re

from murmurlog.bundle.options import Option
from murmurlog.errors import UsageError, did_you_mean
from murmurlog.mechanisms.baselines.k_anonymity import KClick, KKeyword, KQuery, Users30
from murmurlog.mechanisms.baselines.k_session import KSession
from murmurlog.mechanisms.baselines.safelog_literal import SafelogLiteral
from murmurlog.mechanisms.hong.mechanism import Hong
from murmurlog.mechanisms.korolova import Korolova, KorolovaLists
from murmurlog.mechanisms.left_out import LeftOut
from murmurlog.mechanisms.letters import read_letters
from murmurlog.mechanisms.pool import Pool
from murmurlog.mechanisms.protocol import (
    FOLLOWING,
    Accounted,
    Limited,
    Mechanism,
    OptionContext,
    Remarking,
    View,
    check_table,
)
from murmurlog.mechanisms.rounds.mechanism import Rounds
from murmurlog.mechanisms.session_tree import SessionTree
from murmurlog.mechanisms.sessions import LabelPaths, Sessions
from murmurlog.mechanisms.synthetic.mechanism import Synthetic
from murmurlog.mechanisms.threshold import Threshold
from murmurlog.mechanisms.zealous import Zealous
from murmurlog.mechanisms.zealous_keywords import ViaKeywords

REGISTERED: tuple[type[Mechanism], ...] = (
    Threshold,
    Korolova,
    KorolovaLists,
    Pool,
    Zealous,
    ViaKeywords,
    Sessions,
    LabelPaths,
    SessionTree,
    SafelogLiteral,
    KQuery,
    KClick,
    KSession,
    KKeyword,
    Users30,
    Synthetic,
    Rounds,
    Hong,
    LeftOut,
)
MECHANISMS = {mechanism.name: mechanism for mechanism in REGISTERED}

__all__ = [
    "FOLLOWING",
    "MECHANISMS",
    "Accounted",
    "Korolova",
    "KorolovaLists",
    "Limited",
    "Mechanism",
    "OptionContext",
    "Pool",
    "Remarking",
    "Rounds",
    "SessionTree",
    "Sessions",
    "Synthetic",
    "Threshold",
    "View",
    "Zealous",
    "check_table",
    "declared_options",
    "find_mechanism",
    "parse",
    "read_letters",
]


def find_mechanism(name: str) -> type[Mechanism]:
    """The class of the mechanism of this name; what follows a colon or a bracket is ignored."""
    plain = re.split(r"[:(]", name)[0].strip()
    if plain not in MECHANISMS:
        raise UsageError(
            f"unknown mechanism {plain!r:.60}: use one of {', '.join(MECHANISMS)}."
            f"{did_you_mean(plain, MECHANISMS)}"
        )
    return MECHANISMS[plain]


def declared_options() -> dict[str, tuple[Option, list[str]]]:
    """Every option of a mechanism by its name, and the mechanisms that take it."""
    options: dict[str, tuple[Option, list[str]]] = {}
    for mechanism in REGISTERED:
        for option in mechanism.options:
            options.setdefault(option.name, (option, []))[1].append(mechanism.name)
    return options


def parse(text: str) -> Mechanism:
    """The mechanism that `text` names: parse(str(m)) == m."""
    match = re.fullmatch(r"\s*([\w-]+)(?:\((.*)\)|:(\w+))?\s*", text, re.DOTALL)
    if not match:
        raise UsageError(
            f"cannot read {text!r}: write a mechanism as threshold(d=20, scale=8.7, T=122)"
        )
    letters = {"k": match[3]} if match[3] else read_letters(match[2] or "")
    return find_mechanism(match[1]).from_letters(letters)

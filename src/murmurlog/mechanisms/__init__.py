"""The mechanisms by name. To add one: a file, a line here, a docs page, its exact law in the tests."""

import re

from murmurlog.errors import UsageError
from murmurlog.mechanisms.baselines.k_anonymity import KClick, KKeyword, KQuery, Users30
from murmurlog.mechanisms.baselines.k_session import KSession
from murmurlog.mechanisms.baselines.safelog_literal import SafelogLiteral
from murmurlog.mechanisms.hong.mechanism import Hong
from murmurlog.mechanisms.korolova import Korolova, KorolovaLists
from murmurlog.mechanisms.left_out import LeftOut
from murmurlog.mechanisms.pool import Hybrid, Pool
from murmurlog.mechanisms.protocol import (
    FOLLOWING,
    Accounted,
    Limited,
    Mechanism,
    Remarking,
    View,
    only_its_table,
    read_letters,
)
from murmurlog.mechanisms.rounds.mechanism import Rounds
from murmurlog.mechanisms.sessions import LabelPaths, Sessions
from murmurlog.mechanisms.synthetic.mechanism import Synthetic
from murmurlog.mechanisms.synthetic.profiles import Profiles
from murmurlog.mechanisms.threshold import Threshold
from murmurlog.mechanisms.zealous import Zealous
from murmurlog.mechanisms.zealous_keywords import ViaKeywords

MECHANISMS: dict[str, type[Mechanism]] = {
    "threshold": Threshold,
    "korolova": Korolova,
    "korolova-lists": KorolovaLists,
    "pool": Pool,
    "hybrid": Hybrid,
    "zealous": Zealous,
    "zealous-keywords": ViaKeywords,
    "sessions": Sessions,
    "label-paths": LabelPaths,
    "safelog-literal": SafelogLiteral,
    "k-query": KQuery,
    "k-click": KClick,
    "k-session": KSession,
    "k-keyword": KKeyword,
    "users-30": Users30,
    "synthetic": Synthetic,
    "profiles": Profiles,
    "rounds": Rounds,
    "hong": Hong,
    "left-out": LeftOut,
}

__all__ = [
    "FOLLOWING",
    "MECHANISMS",
    "Accounted",
    "Hybrid",
    "Korolova",
    "KorolovaLists",
    "Limited",
    "Mechanism",
    "Pool",
    "Profiles",
    "Remarking",
    "Rounds",
    "Sessions",
    "Synthetic",
    "Threshold",
    "View",
    "Zealous",
    "named",
    "only_its_table",
    "parse",
    "read_letters",
]


def named(name: str) -> type[Mechanism]:
    """The mechanism of this name; a parameter after a colon is not looked at."""
    plain = re.split(r"[:(]", name)[0].strip()
    if plain not in MECHANISMS:
        raise UsageError(f"unknown mechanism {plain!r}: use one of {', '.join(MECHANISMS)}")
    return MECHANISMS[plain]


def parse(text: str) -> Mechanism:
    """The mechanism that `text` names: parse(str(m)) == m."""
    match = re.fullmatch(r"\s*([\w-]+)(?:\((.*)\)|:(\w+))?\s*", text, re.DOTALL)
    if not match:
        raise UsageError(
            f"cannot read {text!r}: write a mechanism as threshold(d=20, scale=8.7, T=122)"
        )
    letters = {"k": match[3]} if match[3] else read_letters(match[2] or "")
    return named(match[1]).from_letters(letters)

"""Canonical keys: which normalised texts people type for one query. Pure functions of one string.

`normalise` says which texts are the same; this module also folds spellings: "www.google.com",
"google .com" and "google" share a key. The rules are public, look at one text only, and have a version
that the certificate states (`text.keys`): whoever changes a rule or the list of endings changes the
version. They only remove characters, and never a digit; what remains keeps its order.
"""

import re
from collections.abc import Callable
from functools import partial

from murmurlog.bundle.keys import LATEST, ODD, normalise
from murmurlog.errors import UsageError

CANONICAL = "canonical-1"
# What --keys takes, and the name that a certificate states for it.
CHOICES = {"normalised": None, "canonical": CANONICAL}

# The first generic domains, and the countries with most names. Endings that are part of many names
# (.io, .ai, .tv, .me, .fm, .co) are left out.
_GENERIC = "com org net edu gov info biz mil"
_COUNTRIES = (
    "at au be br ca ch cl cn cz de dk es eu fi fr gr hu ie il in ir it jp kr mx nl no nz pl pt ro ru se "
    "sk tr tw ua uk us za"
)
_SECOND = (
    "ac.jp ac.uk co.il co.in co.jp co.kr co.nz co.uk co.za com.ar com.au com.br com.cn com.hk com.mx "
    "com.my com.sg com.tr com.tw com.ua gov.au gov.uk ne.jp net.au or.jp org.au org.uk"
)
ENDINGS = frozenset(f"{_GENERIC} {_COUNTRIES} {_SECOND}".split())

_TRAILING = ".,;:!?/ \u3001\u3002\u061f\u0964"  # also the full stops of Chinese, Arabic and Hindi
_LEADING = "\u00a1\u00bf "  # of Spanish
_QUOTES = {"\"\"", "''", "``", "\u201c\u201d", "\u201e\u201c", "\u2018\u2019", "\u00ab\u00bb",
           "\u00bb\u00ab", "\u300c\u300d", "\u300e\u300f"}  # fmt: skip
_LABEL = r"[^\W_]+(?:-+[^\W_]+)*"
_ENDING = "|".join(re.escape(ending) for ending in sorted(ENDINGS, key=len, reverse=True))
_START = rf"(?:https?:/+)*(?:www\.(?!(?:{_ENDING})(?:/|$)))*"
_ADDRESS = re.compile(rf"(?P<start>{_START})(?P<host>{_LABEL}(?:\.{_LABEL})*)(?P<path>/\S*)?")
# Spaces do not belong to an address. Without www., only the endings that are no words show one: the
# text "st. louis" is none, and "tell. me" is none.
_SPACED = re.compile(
    rf"(?:https?: ?/ ?/ ?)?(?:www ?\. ?|www )(?P<site>{_LABEL})(?: ?\. ?| )(?:{_ENDING})"
    rf"|(?P<bare>{_LABEL}) ?\. ?(?:com|org|net|edu|gov)"
)
# A normalised ASCII text in which this matches nowhere is canonical. Engines skip Python for it.
_FOLDABLE = r"[.:]|[,;!?/\x22\x27`]$|^www "


def canonical(text: str, *, version: int = LATEST) -> str | None:
    """The canonical key of a text; None if nothing readable is left after normalising.

    A fixed point: canonical(canonical(x)) == canonical(x). A step that would leave nothing is not taken.
    """
    clean = normalise(text, version=version)
    while clean is not None:
        folded = normalise(_fold(clean), version=version)
        if folded is None or len(folded) >= len(clean):
            break
        clean = folded
    return clean


def cleaner(keys: str | None, *, version: int = LATEST) -> Callable[[str], str | None]:
    """The function from a text to its key, by its name in a certificate."""
    return partial(canonical if keys == CANONICAL else normalise, version=version)


def changeable(keys: str | None) -> str:
    """A regular expression that matches in every text that the cleaner changes, unless the text is
    empty or starts or ends with a space."""
    return f"{ODD}|{_FOLDABLE}" if keys == CANONICAL else ODD


def check_keys(choice: str) -> None:
    """Raises unless --keys can take this."""
    if choice not in CHOICES:
        raise UsageError(f"--keys must be one of {', '.join(CHOICES)}, not {choice!r:.60}")


def without_start(text: str) -> str:
    """A normalised prefix of queries without the scheme and www. that canonical keys do not have."""
    return re.sub(f"^{_START}", "", text) or text


def _fold(text: str) -> str:
    """One round of all rules on a normalised text."""
    text = text.rstrip(_TRAILING).lstrip(_LEADING)
    if len(text) > 2 and text[0] + text[-1] in _QUOTES and not {text[0], text[-1]} & {*text[1:-1]}:
        text = text[1:-1]
    spaced = _SPACED.fullmatch(text)
    if spaced and _is_name(name := spaced["bare"] or spaced["site"]):
        return name
    address = _ADDRESS.fullmatch(text)
    if address is None:
        return text
    host, path = address["host"], address["path"] or ""
    label, _, ending = host.partition(".")
    return (label if ending in ENDINGS and not path and _is_name(label) else host) + path


def _is_name(label: str) -> bool:
    """Whether a label can stand for its site: a number alone cannot."""
    return any(c.isalpha() for c in label)

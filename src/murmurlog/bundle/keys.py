"""The normaliser: which texts are the same query, keyword or url. Pure functions of one string.

Engines disagree about case (Turkish dotted I, final sigma), so text is normalised here, in
Python, on distinct strings only. The rules have a version, which the certificate states: whoever
changes a rule changes the version. Older versions stay, because older bundles are checked by them:

    1  NFKC, casefold, no control characters, single spaces
    2  also no default ignorable code points, and joiners only where they are visible
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from urllib.parse import urlsplit

from murmurlog.bundle.joiners import JOINERS, without_idle_joiners
from murmurlog.errors import UsageError

# The supported versions of the rules, by their names in a certificate.
VERSIONS = {
    f"nfkc-casefold-{version} (unicode {unicodedata.unidata_version})": version
    for version in (1, 2)
}
NORMALISER, LATEST = list(VERSIONS.items())[-1]
MOST_CHARACTERS = 10_000  # of one text by the owner
URL_LEVELS = ("host", "path", "full")

# Printable ASCII without capitals, single spaces inside: already normal, whatever the engine.
# An engine may skip Python for strings that match this from end to end.
ALREADY_NORMAL = r"[!-@\[-~]+( [!-@\[-~]+)*"
# The same rule as a search for violations, since Java's loop over a group has no bound on its stack: a
# string is already normal if this matches nowhere, it has no leading or trailing space, and it is not
# empty.
ODD = r"[^ -@\[-~]|  "

_SPACES = re.compile(r"\s+")
_WORDS = re.compile(r"\w+(?:['\u2019.\-]\w+)*")
_INSIDE = "'\u2019.-"
_RUNS = re.compile(
    "(?P<han>[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+)"
    "|(?P<katakana>[\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff][\u30a1-\u30ff\u31f0-\u31ff]*)"
    "|(?P<hiragana>[\u3041-\u3096\u3099-\u309f]+)"
    "|(?P<thai>[\u0e01-\u0e3a\u0e40-\u0e4e]+)"
    "|(?P<other>[^\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U000323af\u0e01-\u0e3a\u0e40-\u0e4e]+)"
)
# Approximately a syllable: a preposed vowel, a consonant (with r, l or w before a sign), vowel signs
# and tone marks, a final consonant if it has no sign itself, and silenced letters after it. In "e..ia",
# "e..uea" and "..o.." a letter that is also a consonant is the vowel. Any other character is a chunk
# by itself.
_THAI_SIGN = "[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e]"
_THAI_FIRST = f"[\u0e01-\u0e2e](?:[\u0e23\u0e25\u0e27](?={_THAI_SIGN}))?"
_THAI_LAST = f"[\u0e01-\u0e2e](?!{_THAI_SIGN})"
_THAI_SILENT = "(?:[\u0e01-\u0e2e]{1,2}[\u0e34\u0e38]?\u0e4c)?"
_THAI_SYLLABLE = re.compile(
    f"\u0e40{_THAI_FIRST}(?:\u0e35{_THAI_SIGN}*\u0e22|\u0e37{_THAI_SIGN}*\u0e2d)(?:{_THAI_LAST})?"
    f"{_THAI_SILENT}"
    f"|{_THAI_FIRST}[\u0e48-\u0e4b]?\u0e2d{_THAI_LAST}{_THAI_SILENT}"
    f"|[\u0e40-\u0e44]?{_THAI_FIRST}{_THAI_SIGN}*(?:{_THAI_LAST})?{_THAI_SILENT}"
    "|[\u0e01-\u0e4e]"
)
# The form of most urls; the general code gives the same result, more slowly.
PLAIN_URL = (
    r"(?:https?://)?(?:www\.)?"
    r"(?P<host>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)"
    r"(?P<path>/[!\"$->@-~]*)?(?P<query>\?[!\"$-~]+)?(?:#[!-~]*)?"
)
_PLAIN_URL = re.compile(PLAIN_URL)
# Unicode's Default_Ignorable_Code_Point without the joiners: they are invisible.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BLANK = "\u2800"  # the Braille pattern without dots: it looks like a space, but is a symbol
_DEFAULT_PORTS = {"http": 80, "https": 443}
MOST_MARKS = 1000  # length from which combining marks are sorted here, not by NFKC


def normalise(text: str, *, version: int = LATEST) -> str | None:
    """NFKC, casefold, no control or invisible characters, single spaces; None if nothing is left.

    A fixed point: normalise(normalise(x)) == normalise(x).
    """
    if text.isascii() and text.isprintable():
        return " ".join(text.lower().split()) or None
    if version > 1:
        text = _without_ignorable(text)
    for _ in range(8):
        composed = unicodedata.normalize("NFKC", _with_marks_in_order(text))
        folded = unicodedata.normalize("NFKC", composed.casefold())
        kept = _SPACES.sub(" ", _visible(folded)).strip()
        if kept == text and version > 1:
            kept = without_idle_joiners(text)
        if kept == text:
            break
        text = kept
    return text or None


def is_ignorable(c: str) -> bool:
    """Whether normalising removes a character because it is invisible."""
    return _IGNORABLE.match(c) is not None


def has_invisible(text: str) -> bool:
    """Whether a text holds an invisible character; joiners aside, which depend on their context."""
    return _BLANK in text or _IGNORABLE.search(text) is not None


def _without_ignorable(text: str) -> str:
    return _IGNORABLE.sub("", text).replace(_BLANK, " ")


def _with_marks_in_order(text: str) -> str:
    """A text with the same NFKC and sorted combining marks, which NFKC sorts in quadratic time."""
    if len(text) <= MOST_MARKS:
        return text
    out: list[str] = []
    run: list[str] = []
    for c in text:
        for part in unicodedata.normalize("NFKD", c):
            if unicodedata.combining(part):
                run.append(part)
                continue
            out += sorted(run, key=unicodedata.combining)
            out.append(part)
            run.clear()
    return "".join(out + sorted(run, key=unicodedata.combining))


def _visible(text: str) -> str:
    """The text with a space for every control character and space, and without unassigned ones."""
    if text.isprintable():  # then it has neither
        return text
    out = []
    for c in text:
        category = unicodedata.category(c)
        if category in ("Cc", "Zl", "Zp", "Zs"):
            out.append(" ")
        elif category[0] != "C" or c in JOINERS:
            out.append(c)
    return "".join(out)


def keywords(query: str) -> list[str]:
    """The distinct words of a normalised query, in order.

    Scripts without spaces are segmented by rule, without a dictionary: Han into overlapping pairs,
    Katakana not at all, Hiragana and Thai by `_hiragana` and `_THAI_SYLLABLE`. A change of script to
    or from one of these ends a word.
    """
    if query.isascii():
        return list(dict.fromkeys(_WORDS.findall(query)))
    words = (word for run in _words_with_marks().findall(query) for word in _cut(run))
    # A joiner at the end of a word may no longer be needed.
    return list(dict.fromkeys(filter(None, map(without_idle_joiners, words))))


@cache
def _words_with_marks() -> re.Pattern[str]:
    """Like _WORDS, with vowel signs, tone marks and joiners as part of words."""
    marks = [chr(c) for c in range(0x300, 0x20000) if unicodedata.category(chr(c)) in ("Mn", "Mc")]
    word = rf"\w[\w{JOINERS}{''.join(marks)}]*"
    return re.compile(rf"{word}(?:['\u2019.\-]{word})*")


def _cut(word: str) -> list[str]:
    runs = [(match.lastgroup or "", match[0]) for match in _RUNS.finditer(word)]
    words = []
    for script, run in runs:
        if script == "han":
            words += _pairs(run)
        elif script == "hiragana":
            words += _hiragana(run, alone=len(runs) == 1)
        elif script == "thai":
            words += _THAI_SYLLABLE.findall(run)
        elif run := run.strip(_INSIDE):
            words.append(run)
    return words


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(max(len(run) - 1, 1))]


def _hiragana(run: str, *, alone: bool) -> list[str]:
    """Up to four characters whole, more in pairs; a single one beside other text is grammar."""
    if len(run) == 1 and not alone:
        return []
    return [run] if len(run) <= 4 else _pairs(run)


def check_url_level(level: str) -> None:
    """Raises unless the level is known."""
    if level not in URL_LEVELS:
        raise UsageError(f"--url must be one of {', '.join(URL_LEVELS)}, not {level!r}")


def clean_url(url: str, level: str) -> str | None:
    """The url without user name, scheme, default port and fragment, cut at `level`.

    "host" keeps the host, "path" host and path, "full" also the query string. Something that is
    not a url (a document id) is normalised as text. None if nothing readable is left.
    """
    if plain := _PLAIN_URL.fullmatch(url):
        host, path, query = plain.groups("")
        return host + (
            path.rstrip("/") + (query if level == "full" else "") if level != "host" else ""
        )
    text = _without_ignorable("".join(c for c in url if c.isprintable()))
    text = _SPACES.sub("", text)
    try:
        parts = urlsplit(text if "//" in text else f"//{text}")
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
    except ValueError:
        return None
    if not host:
        return None
    host = normalise(host.rstrip(".")) or ""
    if port and port != _DEFAULT_PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    if level == "host":
        return host or None
    path = unicodedata.normalize("NFC", parts.path).rstrip("/")
    query = f"?{parts.query}" if level == "full" and parts.query else ""
    return (host + path + query) or None


def odd_line(texts: Iterable[str]) -> str | None:
    """The first of these texts that is not one plain line, and so could break a card."""
    for text in texts:
        plain = (c.isprintable() or c in JOINERS or unicodedata.category(c) == "Zs" for c in text)
        if len(text) > MOST_CHARACTERS or not all(plain):
            return text
    return None

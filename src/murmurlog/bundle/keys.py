"""The normaliser: which texts are the same query, keyword or url. Pure functions of one string.

Engines disagree about case (Turkish dotted I, final sigma), so text is normalised here, in
Python, on distinct strings only. The rules for queries and keywords have a version, which the
certificate states: whoever changes a rule changes the version. Older versions stay, because older
bundles are checked by them (urls are not):

    1  NFKC, casefold, no control characters, single spaces
    2  also no default ignorable code points, and joiners only where they are visible
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Literal
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
URL_LEVELS = ("host", "path", "full", "id")

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
# The form of most urls, for which `logs/cleaning.py` has fast code; `clean_url` gives the same result, more slowly.
PLAIN_URL = (
    r"https?://(?:www\.)?"
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
# Normalising sorts combining marks in quadratic time: of a longer text they are sorted here, and a longer
# site (a host has at most 253 characters) is none.
MOST_MARKS = 1000


def normalise(text: str, *, version: int = LATEST) -> str | None:
    """NFKC, casefold, no control or invisible characters, single spaces; None if nothing is left.

    A fixed point: normalise(normalise(x)) == normalise(x).
    """
    if text.isascii() and text.isprintable():
        return " ".join(text.lower().split()) or None
    if version > 1:
        text = _without_ignorable(text)
    for _ in range(8):
        folded = unicodedata.normalize("NFKC", _compose(text, "NFKC").casefold())
        clean = _SPACES.sub(" ", _replace_control(folded)).strip()
        if clean == text and version > 1:
            clean = without_idle_joiners(text)
        if clean == text:
            break
        text = clean
    return text or None


def is_ignorable(c: str) -> bool:
    """Whether normalising removes a character because it is invisible."""
    return _IGNORABLE.match(c) is not None


def has_invisible(text: str) -> bool:
    """Whether a text holds an invisible character; joiners aside, which depend on their context."""
    return _BLANK in text or _IGNORABLE.search(text) is not None


def _without_ignorable(text: str) -> str:
    return _IGNORABLE.sub("", text).replace(_BLANK, " ")


def _compose(text: str, form: Literal["NFC", "NFKC"]) -> str:
    """The text in a normal form, in linear time."""
    if len(text) > MOST_MARKS:
        text = _sort_marks(text, "NFD" if form == "NFC" else "NFKD")
    return unicodedata.normalize(form, text)


def _sort_marks(text: str, form: Literal["NFD", "NFKD"]) -> str:
    """The text decomposed character by character, with sorted combining marks."""
    out: list[str] = []
    run: list[str] = []
    for c in text:
        for part in unicodedata.normalize(form, c):
            if unicodedata.combining(part):
                run.append(part)
                continue
            out += sorted(run, key=unicodedata.combining)
            out.append(part)
            run.clear()
    return "".join(out + sorted(run, key=unicodedata.combining))


def _replace_control(text: str) -> str:
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
    """A clicked url or document, cut at `level`; None if nothing readable is left.

    "host" keeps the host, "path" host and path, "full" also the query string. A url that names its
    host by two slashes loses scheme, user name, `www.`, default port, fragment and capitals of the host.
    Anything else can be the id of a document: it loses what can be personal (user name, query string,
    fragment) and stays as it is otherwise. "id" cuts nothing.
    """
    if level == "id":
        return _as_text(url) or None
    if plain := _PLAIN_URL.fullmatch(url):
        site, path, query = plain.groups("")
        path = path.rstrip("/")
    else:
        address, query = _without_fragment(_compact(url))
        scheme, slashes, rest = address.partition("//")
        if slashes and "/" not in scheme and scheme[-1:] in ("", ":"):
            site, slash, path = rest.partition("/")
            site = _clean_site(site, port=_DEFAULT_PORTS.get(scheme[:-1].lower()))
            path = _compose(slash + path, "NFC").rstrip("/")
            if not site:
                return None
        else:
            address, query = _without_fragment(_as_text(url))
            site, slash, path = address.partition("/")
            site, path = site.rpartition("@")[2], slash + path
    key = site + path * (level != "host") + query * (level == "full")
    return key.strip() or None


def _without_fragment(text: str) -> tuple[str, str]:
    """A text in two parts: before its first question mark, and its query string with the mark."""
    address, mark, query = text.partition("#")[0].partition("?")
    return address, mark * bool(query) + query


def _compact(text: str) -> str:
    """The text without white space, control and invisible characters."""
    text = _without_ignorable(text).replace(" ", "")
    return text if text.isprintable() else "".join(c for c in text if c.isprintable())


def _as_text(text: str) -> str:
    """The text in NFC, without invisible characters, with inner spaces for control characters."""
    return _compose(_replace_control(_without_ignorable(text)), "NFC").strip()


def _clean_site(site: str, *, port: int | None) -> str:
    """The host in lower case, and its port unless it is this one; empty if it cannot be read."""
    if len(site) > MOST_MARKS:
        return ""
    try:
        parts = urlsplit(f"//{site}")
        host, other = (parts.hostname or "").removeprefix("www."), parts.port
    except ValueError:
        return ""
    host = normalise(host.rstrip(".")) or ""
    return f"{host}:{other}" if host and other and other != port else host


def odd_line(texts: Iterable[str]) -> str | None:
    """The first of these texts that is not one plain line, and so could break a card."""
    for text in texts:
        plain = (c.isprintable() or c in JOINERS or unicodedata.category(c) == "Zs" for c in text)
        if len(text) > MOST_CHARACTERS or not all(plain):
            return text
    return None

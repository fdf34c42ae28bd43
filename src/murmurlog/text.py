"""The normaliser: what counts as the same query, keyword or url. Pure functions of one string.

Engines disagree about case (Turkish dotted I, final sigma), so text is normalised here, in
Python, on distinct strings only. The rules have a version, and it goes into the certificate:
change a rule, change the version.
"""

import re
import unicodedata
from urllib.parse import urlsplit

from murmurlog.errors import UsageError

NORMALISER = f"nfkc-casefold-1 (unicode {unicodedata.unidata_version})"
URL_LEVELS = ("host", "path", "full")

# Printable ASCII without capitals, single spaces inside: already normal, whatever the engine.
# An engine may skip Python for strings that match this from end to end.
ALREADY_NORMAL = r"[!-@\[-~]+( [!-@\[-~]+)*"

_SPACES = re.compile(r"\s+")
_WORDS = re.compile(r"\w+(?:['\u2019.\-]\w+)*")
# What most urls look like; the general road gives the same answer, more slowly.
_PLAIN_URL = re.compile(
    r"(?:https?://)?(?:www\.)?([a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)"
    r"(/[!\"$->@-~]*)?(\?[!\"$-~]+)?(?:#[!-~]*)?"
)
_JOINERS = "\u200c\u200d"  # letters of Persian and Indic scripts and emoji need them
_DEFAULT_PORTS = {"http": 80, "https": 443}


def normalise(text: str) -> str | None:
    """NFKC, casefold, no control or invisible characters, single spaces; None if nothing is left.

    A fixed point: normalise(normalise(x)) == normalise(x).
    """
    for _ in range(8):
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        kept = folded if folded.isascii() and folded.isprintable() else _visible(folded)
        kept = _SPACES.sub(" ", kept).strip()
        if kept == text:
            break
        text = kept
    return text or None


def _visible(text: str) -> str:
    out = []
    for c in text:
        category = unicodedata.category(c)
        if category in ("Cc", "Zl", "Zp", "Zs"):
            out.append(" ")
        elif category[0] != "C" or (category == "Cf" and c in _JOINERS):
            out.append(c)
    return "".join(out)


def keywords(query: str) -> list[str]:
    """The distinct words of a normalised query, in order."""
    return list(dict.fromkeys(_WORDS.findall(query)))


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
    text = _SPACES.sub("", "".join(c for c in url if c.isprintable()))
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

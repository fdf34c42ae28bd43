"""Addresses with a scheme: which of them are read, and how they are shown.

An address may hold a password or a signature, so every message shows it by `mask`. Imports nothing
heavy.
"""

import re

STORES = ("s3", "gs", "az", "abfs")
READ = (*STORES, "https")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# In the name of an object ? is a wildcard and # a letter; a query has a name and an equals sign.
_QUERY_OF_STORE = re.compile(r"\?[\w.%-]+=.*", re.DOTALL)
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def scheme_of(text: str) -> str:
    """The scheme of an address in small letters; empty for a path."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else ""


def is_uri(path: str) -> bool:
    """Whether only Spark can read the path: s3a://..., hdfs://..."""
    return _SCHEME.match(path) is not None


def mask(text: str) -> str:
    """An address without its user and password, and without its query, which may be a signature."""
    scheme = scheme_of(text)
    if not scheme:
        return text
    head, _, rest = text.partition("://")
    rest = (_QUERY_OF_STORE if scheme in STORES else _QUERY).sub("?***", rest)
    host, slash, path = rest.partition("/")
    user, at, server = host.rpartition("@")
    # Before the @ of an Azure address stands its container.
    if at and (scheme != "abfs" or ":" in user):
        host = f"***@{server}"
    return f"{head}://{host}{slash}{path}"

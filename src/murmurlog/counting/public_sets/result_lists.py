"""Public lists of results: the urls that a search engine shows for a query, for any user.

They must be independent of the log (A2): a list that was re-ranked by its clicks is not public.
"""

from pathlib import Path

import pyarrow as pa

from murmurlog.bundle.canonical import cleaner
from murmurlog.bundle.keys import clean_url
from murmurlog.errors import InputError


def read_lists(path: Path, *, url: str, keys: str | None = None) -> pa.Table:
    """The distinct (query, url) of a file of query<TAB>url lines, cleaned as the log is."""
    if not path.is_file():
        raise InputError(f"there is no file of result lists {str(path)!r}")
    pairs: dict[tuple[str, str], None] = {}
    clean_key = cleaner(keys)
    with path.open(encoding="utf-8-sig", errors="strict", newline="\n") as lines:
        try:
            for row, line in enumerate(lines, start=1):
                query, tab, address = line.rstrip("\r\n").partition("\t")
                clean = (clean_key(query), clean_url(address, url))
                if not tab or clean[0] is None or clean[1] is None:
                    raise InputError(
                        f"{path.name}, line {row}: result lists are lines of query<TAB>url"
                    )
                pairs[clean[0], clean[1]] = None
        except UnicodeDecodeError:
            raise InputError(f"{path.name} is not UTF-8 text") from None
    if not pairs:
        raise InputError(f"{path.name} lists no results")
    queries, urls = zip(*pairs, strict=True)
    return pa.table({"query": pa.array(queries, pa.string()), "url": pa.array(urls, pa.string())})

"""What held-out users did, written down in a line, for the trials that need it."""

import pyarrow as pa

from murmurlog.evaluation.ground_truth import Truth

COLUMNS = pa.schema(
    [("user", pa.int64()), ("session", pa.int64()), ("query", pa.string()), ("url", pa.string())]
)


def truth(*sessions):
    """Sessions of one user each, of queries or (query, url)."""
    rows = [
        {"user": number, "session": number, "query": query, "url": url}
        for number, session in enumerate(sessions)
        for query, url in ((one, None) if isinstance(one, str) else one for one in session)
    ]
    return Truth(tables={}, holders={}, searches=pa.Table.from_pylist(rows, schema=COLUMNS))

"""What held-out users did, written down in a line, for the trials that need it."""

import pyarrow as pa

from murmurlog.evaluation.ground_truth import Truth

COLUMNS = pa.schema(
    [("user", pa.int64()), ("session", pa.int64()), ("query", pa.string()), ("url", pa.string())]
)


def truth_of_sessions(*sessions):
    """Sessions of one user each, of queries or (query, url)."""
    rows = [
        {"user": number, "session": number, "query": query, "url": url}
        for number, session in enumerate(sessions)
        for query, url in ((one, None) if isinstance(one, str) else one for one in session)
    ]
    return Truth(tables={}, holders={}, searches=pa.Table.from_pylist(rows, schema=COLUMNS))


def truth_of_rows(rows, **more):
    """A truth whose held-out users did this: (user, query, url)."""
    user, query, url = zip(*rows, strict=True)
    searches = pa.table(
        {
            "user": pa.array(user, pa.int64()),
            "session": pa.array(range(len(rows)), pa.int64()),
            "query": pa.array(query, pa.string()),
            "url": pa.array(url, pa.string()),
        }
    )
    return Truth(tables={}, holders={}, searches=searches, **more)

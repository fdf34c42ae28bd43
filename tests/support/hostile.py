"""A log whose every field tries to be read in two ways: many scripts, NULLs, empty strings, edges."""

from datetime import datetime

import numpy as np
import pyarrow as pa

QUERIES = [
    *(
        "İstanbul",
        "ı I i İ",
        "ΟΔΟΣ",
        "ὈΔΥΣΣΕΎΣ",
        "ς σ Σ",
        "ﬁre",
        "straße",
        "STRASSE",
        "ẞ",
        "ǅ",
        "Ⅷ",
    ),
    *(
        "①",
        "ｆｕｌｌ",
        "東京 天気",
        "ขอบคุณ",
        "שלום",
        "مرحبا\u200cها",
        "👩\u200d🔬",
        "\U0001f600" * 3,
    ),
    *(
        "a\x00b",
        "a\nb",
        "a\n",
        "\n",
        "\r\n",
        "a\r",
        "\u2028x",
        "\u00a0nbsp\u00a0",
        "",
        "  ",
        " lead",
    ),
    *("trail ", "two  spaces", "tab\there", "[b]", "x'y", '"q"', "back\\slash", "$1", "${x}", "%_"),
    *(
        "[&&c]",
        "e\u0301",
        "é",
        "\u200b",
        "\ufeffbom",
        "\ufdd0",
        "\uffff",
        "\ud7ff\ue000",
        "~",
        "\x7f",
    ),
    *("a" * 5000, "a " * 4000, "-1", "1e5", "null", "NULL", "NaN", "K", "Å", "Ꭰ", "mail@x.org"),
    "4111 1111 1111 1111",
]
USERS = [None, "", " ", "u\x00", "ü", "U", "u", "u\n"]
URLS = [
    *(
        None,
        "",
        "http://www.Example.com/A?b=c#d",
        "https://exämple.de/ü",
        "not a url",
        "http://[bad",
    ),
    *("http://u:p@h.org:80/x/", "ftp://x.org", "example.org", "HTTP://EXAMPLE.ORG/", "doc\x00id"),
]
COUNTRIES = [None, "", "DE", "FR", "ÑÑ"]
TIMES = [
    *(
        datetime(1, 1, 1),
        datetime(1582, 10, 10, 3),
        datetime(1900, 1, 1),
        datetime(1969, 12, 31, 23),
    ),
    *(datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(2024, 2, 29, 23, 59, 59, 1)),
]
TIME_TEXTS = [
    *(None, "", " ", "2024-01-05", "2024-1-5 3:04:05", "2024-01-05T03:04:05Z", "2024/01/05 03:04"),
    *("2024-01-05 03:04:05.123456789", "2024-01-05 03:04:05+02", "2024-01-05T03:04:05+05:30"),
    *("epoch", "infinity", "-infinity", "now", "today", "2024", "2024-01", "12:30", "T12:30", "x"),
    *("1704423845", "1704423845.5", "1704423845123", "1704423845123456", "1704423845123456789"),
    *("0044-03-15 (BC)", "10000-01-01", "2023-02-29", "2024-01-05 25:00:00", "\n2024-01-05 "),
]
RANKS = [None, "", "1", " 2 ", "1.7", "2.5", "-3", "9999999999", "one", "1e1", "0x1", "+4"]


def hostile_log(rows: int, *, seed: int, distinct: float = 0.3) -> pa.Table:
    """user, time, query, url, rank, country; about `distinct` of all rows ask what nobody else does."""
    rng = np.random.default_rng(seed)
    busy = np.minimum(rng.pareto(0.6, rows) * 10, rows / 8).astype(int)
    ids = np.where(rng.random(rows) < 0.3, busy, rng.integers(0, rows // 5, rows))
    users = _mix(rng, rows, [f"user{i}" for i in ids.tolist()], USERS, 0.02)
    popular = (rng.pareto(0.8, rows) * 3).astype(int) % rows
    asked = np.where(rng.random(rows) < distinct, rng.integers(0, 10 * rows, rows), popular)
    capital = rng.random(rows) < 0.3
    queries = [f"{'Query' if c else 'query'} {q}" for c, q in zip(capital, asked, strict=True)]
    short = [text for text in QUERIES if len(text) < 100]
    two = [f"{a} {b}" for a in short[:40] for b in short[40:]]
    queries = _mix(rng, rows, queries, [*QUERIES, *two, None], 0.3)
    sites = (rng.pareto(0.7, rows) * 2).astype(int) % rows
    urls = _mix(rng, rows, [f"http://site{i}.org/p{i % 3}" for i in sites.tolist()], URLS, 0.5)
    start = np.datetime64("2024-01-01", "us")
    micro = rng.integers(0, 40 * 86_400, rows) * 1_000_000
    micro += rng.choice([0, 1, 500_000, 999_999], rows)
    times = pa.array(start + micro.astype("timedelta64[us]"), mask=rng.random(rows) < 0.02)
    edges = pa.array(TIMES, pa.timestamp("us")).take(pa.array(rng.integers(0, len(TIMES), rows)))
    times = pa.compute.if_else(pa.array(rng.random(rows) < 0.002), edges, times)
    return pa.table(
        {
            "user": users,
            "time": times,
            "query": queries,
            "url": urls,
            "rank": pa.array(rng.integers(1, 11, rows), mask=rng.random(rows) < 0.5),
            "country": _mix(rng, rows, [None] * rows, COUNTRIES, 1.0),
        }
    )


def _mix(rng, rows, usual, odd, share):
    """The usual values, with odd ones in their place now and then."""
    chosen = pa.array(odd, pa.string()).take(pa.array(rng.integers(0, len(odd), rows)))
    mask = pa.array(rng.random(rows) < share)
    return pa.compute.if_else(mask, chosen, pa.array(usual, pa.string()))


def with_texts(log: pa.Table, *, seed: int) -> pa.Table:
    """The same log with times and ranks as texts of many forms."""
    rng = np.random.default_rng(seed)
    for name, odd in (("time", TIME_TEXTS), ("rank", RANKS)):
        place = log.column_names.index(name)
        usual = log[name].cast(pa.string()).to_pylist()
        log = log.set_column(place, name, _mix(rng, log.num_rows, usual, odd, 0.5))
    return log


def with_numbers(log: pa.Table, kind: pa.DataType, *, seed: int) -> pa.Table:
    """The same log with times as numbers: Unix times, and what no year has."""
    rng = np.random.default_rng(seed)
    seconds = log["time"].cast(pa.int64()).to_numpy() / 1e6  # NaN where there is none
    scaled = np.round(seconds * rng.choice([1, 1e3, 1e6], log.num_rows), 2)
    odd = (
        [1e300, np.inf, -np.inf, np.nan, -1e18, 5e20] if pa.types.is_floating(kind) else [-7, 5e20]
    )
    mixed = np.where(rng.random(log.num_rows) < 0.1, rng.choice(odd, log.num_rows), scaled)
    missing = np.isnan(seconds) & (rng.random(log.num_rows) < 0.5)
    if not pa.types.is_floating(kind):
        missing |= np.isnan(mixed)
        mixed = np.where(missing, 0, mixed)
        texts = [f"{value:.2f}" for value in mixed.tolist()]
        times = pa.array(texts).cast(kind)
        times = pa.compute.if_else(pa.array(missing), pa.scalar(None, kind), times)
    else:
        times = pa.array(mixed, kind, mask=missing)
    return log.set_column(log.column_names.index("time"), "time", times)

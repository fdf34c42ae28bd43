"""Tables and certificates written by hand, honest but for the log."""

import pyarrow as pa

from murmurlog.bundle.certificate import ENTROPY, METHOD, TEXT_KEYS, Certificate, TableClaim
from murmurlog.bundle.keys import NORMALISER
from murmurlog.bundle.schema import in_order, schema
from murmurlog.mechanisms import parse
from murmurlog.privacy import compose
from murmurlog.publishing.plan import PROBABILITIES, drawn_with

THRESHOLD = "threshold(noise=geometric, d=5, scale=2.0, T=40)"


def make_table(kind, *rows, count="users", by=None):
    """A table of (keys ..., count, stderr); reliable where it says so."""
    wanted = schema(kind, count=count, by=by)
    full = [(*row, 4 * row[-1] <= row[-2]) for row in rows]
    return in_order(
        pa.Table.from_pylist([dict(zip(wanted.names, row, strict=True)) for row in full], wanted)
    )


def make_certificate(tables, mechanisms=None, *, epsilon=2.5, **changes):
    """A certificate for these tables, by default of thresholds; honest, but for the log."""
    claims = {}
    for name, table in tables.items():
        text = (mechanisms or {}).get(name, THRESHOLD)
        mechanism = parse(text)
        claims[name] = TableClaim(
            rows=table.num_rows,
            mechanism=text,
            guarantee=mechanism.guarantee(epsilon=epsilon),
            count=next((c for c in ("users", "rows") if c in table.column_names), None),
            parameters=mechanism.parameters(),
            passes={str(p): n for p in PROBABILITIES if (n := mechanism.passes(p)) is not None},
        )
    private = changes.get("private", True)
    total = compose([claim.guarantee for claim in claims.values()])
    delta = drawn_with([parse(claim.mechanism) for claim in claims.values()], total)
    stated = {
        "release_id": "ab" * 16,
        "published": "2026-01-31",
        "murmurlog": __import__("murmurlog").__version__,
        "private": True,
        "guarantee": total,
        "tables": claims,
        "bound": "first",
        "text": {
            "normaliser": NORMALISER, "url": "path", "screen": [], "deny": False, "since": None,
            "until": None, "where": None, "gap": None, "set_size": None, "consecutive": None,
        },
        "engine": "duckdb",
        "sampler": {
            "method": METHOD, "entropy": ENTROPY[private], "keys": TEXT_KEYS, "delta": delta,
        },
        "by": None,
        "declared_users": None,
        "unprotected": (),
        "booked": None,
        "about": {},
    }  # fmt: skip
    return Certificate(**(stated | changes))

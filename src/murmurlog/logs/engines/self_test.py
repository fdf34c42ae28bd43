"""Known answers that an engine must give before it counts anything."""

import hashlib
import math
import re
from datetime import UTC, datetime

import ibis
import pyarrow as pa

from murmurlog.bundle.keys import ODD
from murmurlog.errors import EngineError
from murmurlog.logs.engines.protocol import Engine

HOSTILE = (
    "a", "é", "İ", "ς", "x'y", "", " ", "a b", "a  b", " a", "a ", "\u05d0", "👩\u200d🔬",
    "wea\u034fther", "wea\u200dther\u2800", "Z", "z[", "\uffff", "a\n", "a\r\n", "\n", "a\x00b",
    "a\\b", "~", "\x7f", "\ud7ff", "\ue000", "\U0001f600", "ǅ", "ﬁ", "e\u0301", "a\u2028", "%_",
    "[&&b]", "${x}", "$1",
)  # fmt: skip
_TIMES = ("1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "2024-02-29T23:59:59.000001")


def self_test(engine: Engine) -> None:
    """Raises unless the engine gives known answers for what the privacy proofs rely on."""
    moments = [datetime.fromisoformat(text) for text in _TIMES]
    texts = [*HOSTILE, None]
    table = engine.keep(
        pa.table(
            {
                "s": pa.array(texts, pa.string()),
                "i": pa.array(range(len(texts)), pa.int64()),
                "t": pa.array([moments[i % 3] for i in range(len(texts))], pa.timestamp("us")),
            }
        )
    )
    place = ibis.row_number().over(ibis.window(order_by=[table.s.asc(nulls_first=False)]))
    asked = table.select(
        "i",
        h=ibis.literal("|").join([ibis.literal("k"), table.s]).hexdigest("sha256"),
        n=table.s.length(),
        odd=table.s.re_search(ODD),
        given=table.s.nullif("").notnull(),
        place=place.cast("int64"),
        root=(table.i * 1000 / (table.i + 1).sqrt()).floor().cast("int64"),
        micro=engine.microseconds(table.t),
        week=table.t.truncate("W").strftime("%Y-%m-%d"),
    )
    rows = [row for batch in engine.batches(asked) for row in batch.to_pylist()]
    in_order = sorted(HOSTILE, key=str.encode)
    expected = [
        {
            "i": i,
            "h": hashlib.sha256(("k" if s is None else f"k|{s}").encode()).hexdigest(),
            "n": None if s is None else len(s),
            "odd": None if s is None else re.search(ODD, s) is not None,
            "given": bool(s),
            "place": len(HOSTILE) if s is None else in_order.index(s),
            "root": math.floor(i * 1000 / math.sqrt(i + 1)),
            "micro": round(moments[i % 3].replace(tzinfo=UTC).timestamp() * 1e6),
            "week": ("1969-12-29", "1969-12-29", "2024-02-26")[i % 3],
        }
        for i, s in enumerate(texts)
    ]
    if sorted(rows, key=lambda row: int(row["i"])) != expected:
        raise EngineError(
            f"{engine.version} fails its self-test: hashing, length, byte order, searching or times "
            "differ from Python's, so bounding would not match the assumptions of the proof. Install the "
            "versions of requirements.txt."
        )

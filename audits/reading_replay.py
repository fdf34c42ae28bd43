"""Replays reading: text files, the normaliser, the screen, times, and columns of `--by`.

The audit's worlds are Parquet files of clean text. Here logs go through the text readers. What they must
become is known by construction: every text has a clean form and variants that differ from it only in case,
width, accents written in two ways, and spaces.
"""

import csv
import io
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from log_rows import queries_of, rows_of
from probes import exact_counts
from replacement import replaced

from murmurlog.bundle.read import load as load_bundle
from murmurlog.errors import UsageError
from murmurlog.logs import formats
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import Log, read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.screen import load as load_screen
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import TextKeys
from murmurlog.mechanisms import Mechanism, View
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.release import release

ROWS = 400
BORDERS = (1009, 4001)  # bytes of a piece of a file: records cross many borders
ROLES = {"user": "user", "query": "query", "url": "url", "time": "time"}
FREQUENT, RARE = 60, 1  # users of personal data: how many ask for it must not matter
PERSONAL = (
    "jane.doe@example.org",
    "mail to john.roe@example.com please",
    "+49 30 901820 call",
    "4111 1111 1111 1111",
    "gb82 west 1234 5698 7654 32",
)
HARMLESS = ("weather", "news of today", "red shoes 42")
NAMES = (
    "number",
    "item",
    "unit",
    "place",
    "attention",
)  # columns of `--by` that the code uses, too
VALUES = ("DE", "FR")
SEED = 1
REFUSED = "refused"  # before anything is counted: a release may refuse a name
BY_MECHANISMS = ("threshold", "rounds", "korolova", "zealous")


class Written(NamedTuple):
    """A row as a file has it, and the query that it must become."""

    user: str
    query: str
    url: str
    time: str
    clean: str

    @property
    def fields(self) -> tuple[str, ...]:
        return self[:4]


def variants_of(clean: str, number: int) -> str:
    """A text that must be read as the clean one."""
    wide = clean.replace(" ", "\u3000").replace("o", "\uff4f")
    return (
        clean,
        clean.upper(),
        f"  {clean}",
        clean.title().replace(" ", "   ") + " ",
        unicodedata.normalize("NFD", clean),
        wide,
    )[number % 6]


def make_rows() -> list[Written]:
    """Rows of different lengths, with commas, quotes, accents, and texts in several variants."""
    rows = []
    for n in range(ROWS):
        clean = ("red shoes", "caf\u00e9, old town", 'the "best" disk', "x" * (n % 97 + 1))[n % 4]
        clean = f"{clean} {n % 23}"
        time = f"2026-01-{1 + n % 28:02d} {n % 24:02d}:{n % 60:02d}:00"
        rows.append(
            Written(f"user{n % 41}", variants_of(clean, n // 4), f"site{n}.org/a", time, clean)
        )
    return rows


# --- files -----------------------------------------------------------------------------------------


def _csv(rows: Sequence[Written]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ROLES)
    writer.writerows(row.fields for row in rows)
    return text.getvalue()


def _tsv(rows: Sequence[Written]) -> str:
    return "\n".join("\t".join(fields) for fields in [tuple(ROLES), *(r.fields for r in rows)])


def _jsonl(rows: Sequence[Written]) -> str:
    return "".join(json.dumps(dict(zip(ROLES, r.fields, strict=True))) + "\n" for r in rows)


FORMATS: Mapping[str, Callable[[Sequence[Written]], str]] = {
    "csv": _csv,
    "tsv": _tsv,
    "jsonl": _jsonl,
}


def check_reading(folder: Path) -> list[str]:
    """One sentence for each file of which rows are lost, doubled or changed."""
    rows, faults = make_rows(), []
    keys = TextKeys(SeededEntropy(SEED).stream("keys"))
    users = {
        row.user: tuple(key)
        for row, key in zip(
            rows, keys.texts(pa.array([r.user for r in rows])).tolist(), strict=True
        )
    }
    expected = Counter((users[row.user], row.clean, row.time) for row in rows)
    with connect() as engine:
        for ending, write in FORMATS.items():
            file = folder / f"reading.{ending}"
            file.write_text(write(rows), encoding="utf-8")
            for block in BORDERS:
                with replaced(formats, "BLOCK", block):
                    log = read(
                        find(str(file), SourceOptions(columns=ROLES)),
                        engine=engine,
                        entropy=SeededEntropy(SEED),
                    )
                if fault := _difference(log, expected):
                    faults.append(f"a .{ending} file in pieces of {block} bytes: {fault}")
    return faults


def _difference(log: Log, expected: Counter[tuple[Any, str, str]]) -> str | None:
    found = Counter[Any]()
    for (_, user, time, query, *_), many in rows_of(log).items():
        found[user, query, f"{time:%Y-%m-%d %H:%M:%S}"] += many
    lost, added = sum((expected - found).values()), sum((found - expected).values())
    if not lost and not added:
        return None
    return f"{lost} of {sum(expected.values())} rows are lost or changed, and {added} are new"


# --- the screen ------------------------------------------------------------------------------------


def check_screen(folder: Path) -> list[str]:
    """Whether personal data is dropped however many users ask for it, and nothing else is."""
    rows = [
        (f"user{number}x{n}", text)
        for number, text in enumerate(PERSONAL + HARMLESS)
        for n in range(FREQUENT if number % 2 else RARE)
    ]
    # Each kind is asked by many users in one file and by one user in the other.
    swapped = [
        (f"user{number}x{n}", text)
        for number, text in enumerate(PERSONAL + HARMLESS)
        for n in range(RARE if number % 2 else FREQUENT)
    ]
    faults = []
    for name, some in (("screen", rows), ("screened", swapped)):
        path = folder / f"{name}.parquet"
        pq.write_table(
            pa.table(dict(zip(("user", "query"), zip(*some, strict=True), strict=True))), path
        )
        with connect() as engine:
            left = queries_of(read(find(str(path)), engine=engine, screen=load_screen()))
        for text in sorted(left & set(PERSONAL)):
            many = sum(query == text for _, query in some)
            faults.append(f"the screen leaves a query of personal data that {many} users asked")
        if missing := set(HARMLESS) - left:
            faults.append(f"the screen drops {', '.join(sorted(missing))}")
    return faults


# --- distinct after cleaning -----------------------------------------------------------------------


def check_distinct(mechanism: Mechanism, table: str, folder: Path) -> list[str]:
    """Whether variants of one text count once for each user, by the mechanism's own counting."""
    users = 9
    words = ("red shoes", "caf\u00e9 au lait")
    rows = [
        (f"user{user}", variants_of(word, n), f"site{number}.org", f"2026-01-01 00:{n:02d}:{number:02d}")
        for user in range(users)
        for number, word in enumerate(words)
        for n in range(6)
    ]  # fmt: skip
    path = folder / "distinct.tsv"
    path.write_text(
        "\n".join("\t".join(row) for row in [tuple(ROLES), *rows]) + "\n", encoding="utf-8"
    )
    with connect() as engine:
        log = read(find(str(path), SourceOptions(columns=ROLES)), engine=engine)
        found = exact_counts(
            mechanism.gather(log, View(kind=table, way="first"), entropy=SeededEntropy(SEED))
        )
    if found is None:
        return []
    if found.by_one and (most := max(found.counts.values(), default=0)) > users:
        return [
            f"{table}: an item of {users} users has a count of {most}: variants of one text count more than once"
        ]
    if len(found.counts) > len(words):
        return [f"{table}: variants of one text are different items"]
    return []


# --- columns of --by -------------------------------------------------------------------------------


def check_by(mechanism: str, folder: Path) -> list[str]:
    """Whether a release by a column is the same whatever the column is called."""
    if mechanism not in BY_MECHANISMS:
        return []
    found = {name: _released_by(name, mechanism, folder) for name in ("country", *NAMES)}
    return [
        f"--by {name}: another release than by the same column under the name country ({found[name]!s:.80})"
        for name in NAMES
        if found[name] not in (found["country"], REFUSED)
    ]


def _released_by(column: str, mechanism: str, folder: Path) -> Any:
    """The published rows of a log with one such column, drawn with a fixed seed; or why there are none."""
    rows = [
        (f"user{n}", f"common word{(n + k) % 4}", VALUES[(n + k) // 4 % 2])
        for n in range(320)
        for k in range(8)
    ]
    log = folder / f"by-{mechanism}-{column}.parquet"
    names = ("who", "asked", column)
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), log)
    out = folder / f"by-{mechanism}-{column}"
    try:
        release(
            str(log), out=out, tables=["query"], mechanism=mechanism, epsilon=8.0, delta=1e-3,
            per_user=8, columns={"user": "who", "query": "asked"}, by=(column, VALUES),
            entropy=SeededEntropy(1),
        )  # fmt: skip
        table = load_bundle(out).tables["query"]
    except UsageError:
        return REFUSED
    except Exception as error:  # whatever the code fails with is a difference between the names
        return f"{type(error).__name__}: {error}"
    table = table.rename_columns(["by" if n == column else n for n in table.column_names])
    return sorted(map(str, table.select(["query", "by", "users"]).to_pylist()))

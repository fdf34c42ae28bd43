"""Forged bundles with right checksums, given to `serve`: each is refused or shown, and never breaks it.

Certificates and tables of sound bundles are changed, at random or so that they still look sound. What
is shown is asked at every address. No answer may be an HTTP 500, over 2 MB (but for exports of whole
tables), or take over 2 s of CPU.
"""

import copy
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hostile_bundles import VALUES, as_text, paths, put, seal
from starlette.testclient import TestClient

import murmurlog
from murmurlog.bundle.schema import count_of, in_order, is_reliable
from murmurlog.bundle.write import publish
from murmurlog.cli.serve import verify_bundle
from murmurlog.errors import BundleError, OtherVersion
from murmurlog.web import app as application
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Hosts

MOST_BYTES, MOST_SECONDS = 2_000_000, 2.0  # of an answer
# A whole table, written a piece at a time: it may be as long as a small file may unpack to.
EXPORTS, MOST_EXPORT = ("/top.csv", "/top.tsv"), 20_000_000
ASKED = 8  # addresses of each bundle that is shown
RELEASES: tuple[dict[str, Any], ...] = (
    {"tables": ["query", "click", "pair"], "mechanism": "threshold", "about": {"title": "t"}},
    {"tables": ["query"], "epsilon": 6},
    {"tables": ["keyword", "session"],
     "mechanism": {"keyword": "threshold", "session": "sessions"}},
    {"tables": ["log"], "mechanism": "synthetic"},
    {"tables": ["query", "click"], "mechanism": "threshold", "by": ("country", ["DE", "FR"])},
    {"tables": ["query", "click"], "mechanism": "threshold", "users": 10_000},
)  # fmt: skip
ADDRESSES = (
    "/", "/?q=common", "/?q=common+1", "/?q=no+such+thing", "/?q=%E0%B8%82", "/top", "/top?size=200",
    "/top?match=*o*&sort=text", "/top?sort=error&order=rising", "/top?table=click&column=url&match=a",
    "/top?page=2&size=25", "/top.csv", "/top.tsv?match=c", "/privacy", "/compare",
    "/compare?table=query", "/complete?q=", "/complete?q=c",
)  # fmt: skip
SLOW = ("/verify", "/privacy?check=now")  # for one bundle in twenty
TEXTS = (
    "", " ", "a", "common 0", "common 1", "\u00e9t\u00e9", "\u6771\u4eac", "A", "a  b", "a\tb", "a\x00",
    "<script>alert(1)</script>", "=cmd()", "x" * 20_000, "\u0e02" * 15_000, "a" + "\u0301" * 3000,
    "\u202eexe", "\ufdfa" * 500, "w " * 4000 + "w", "\ufdd0", "%", "*", "\U0001f469\u200d\U0001f52c",
)  # fmt: skip
COUNTS = (-(2**40), -1, 0, 1, 3, 500, 2**31, 2**53 + 1, 2**61)
MOST_FORGED = 10_000_000  # bytes of a table: changes come on top of each other
ERRORS = (0.0, 1e-300, 0.5, 2.0, 1e9, 1e18, float("nan"))


@dataclass
class Served:
    """What came of the bundles of one kind."""

    inputs: int = 0
    shown: int = 0
    answers: int = 0
    largest: int = 0  # bytes
    longest: float = 0.0  # seconds of CPU
    violations: list[str] = field(default_factory=list)


def make_sound(home: Path) -> list[Path]:
    """Small sound bundles of every kind of table and of another version."""
    rows = [
        {"user": f"u{n}", "time": f"2026-01-31 18:{minute:02}:00", "query": f"common {query}",
         "url": f"site{query}.example/a", "country": ("DE", "FR")[n % 2]}
        for n in range(300)
        for minute, query in enumerate((n % 2, 2, 3 + n % 3))
    ]  # fmt: skip
    log = home / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), log)
    made = []
    for number, options in enumerate(RELEASES):
        out = home / f"sound{number}"
        murmurlog.release(str(log), out=out, **({"epsilon": 9.0} | options))
        made.append(out)
    first = murmurlog.load(made[0])
    made.append(home / "other")
    other = replace(first.certificate, murmurlog="0.0.9")
    publish(made[-1], tables=first.tables, certificate=other)
    return made


# --- how bundles are forged -----------------------------------------------------------------------


def change_certificate(bundle: Path, choice: random.Random) -> str:
    """Replaces, removes or adds a few values of privacy.json."""
    path = bundle / "privacy.json"
    stated, said = json.loads(path.read_text()), []
    for _ in range(choice.choice((1, 1, 1, 2, 3))):
        at = choice.choice([at for at in paths(stated) if at])
        old = _at(stated, at)
        alike = _alike(old, choice)
        new = choice.choice(alike if alike and choice.random() < 0.7 else VALUES)
        how = choice.random()
        if how < 0.05 and isinstance(at[-1], str):
            stated = copy.deepcopy(stated)
            del _at(stated, at[:-1])[at[-1]]
            said.append(f"without {at}")
        elif how < 0.1 and isinstance(old, dict):
            stated = put(stated, (*at, choice.choice(("x", "columns", "0.5", "\ud800"))), new)
            said.append(f"more in {at}: {new!a:.30}")
        elif how < 0.15:
            other = choice.choice([other for other in paths(stated) if other])
            stated = put(stated, at, copy.deepcopy(_at(stated, other)))
            said.append(f"{at} = that of {other}")
        else:
            stated = put(stated, at, new)
            said.append(f"{at} = {new!a:.30}")
    path.write_text(as_text(stated))
    return "; ".join(said)


def _at(value: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        value = value[key]
    return value


def _alike(old: Any, choice: random.Random) -> tuple[Any, ...]:
    """Values of the same type, some of which a release could state."""
    if isinstance(old, bool):
        return (not old,) * 6
    if isinstance(old, int):
        return (old + 1, old * 1000, -old, 1, 2**40, 2**61, 10**30)
    if isinstance(old, float):
        return (old / 2, old * 1e6, 1e-12, 1e-290, 1.0, 1e14, 0.0, 1)
    if isinstance(old, str):
        return (old + "x", "rows", "users", "none", "pdp", "gaussian", choice.choice(TEXTS))
    if isinstance(old, list):
        return (old * 2, old[:1], old * 500)
    return ()


def change_table(bundle: Path, choice: random.Random) -> str:
    """Changes rows of a table; mostly puts them in order again, so that only a little is wrong."""
    stated = json.loads((bundle / "privacy.json").read_text())
    name = choice.choice(sorted(stated["tables"]))
    path = bundle / "data" / f"{name}.parquet"
    table = pq.read_table(path)
    metadata, said = table.schema.metadata, []
    for _ in range(choice.choice((1, 1, 2, 3))):
        how = choice.choice(CHANGES)
        try:
            table = how(table, choice)
        except (pa.ArrowException, ValueError, IndexError, OverflowError):
            continue  # this table has no such column, or no row
        said.append(how.__name__)
    if choice.random() < 0.8:
        with suppress(pa.ArrowException):  # nothing is left to sort by
            table = _put_right(table)
        stated["tables"][name]["rows"] = table.num_rows
        (bundle / "privacy.json").write_text(json.dumps(stated))
    table = table.replace_schema_metadata(metadata)
    groups = choice.choice((1 << 20, 1 << 20, max(1, table.num_rows // 500)))
    pq.write_table(table, path, compression="zstd", row_group_size=groups)
    return f"{name}: {', '.join(said)}"


def _put_right(table: pa.Table) -> pa.Table:
    """The table in canonical order, with `reliable` as error and count say."""
    count = count_of(table)
    if count is not None and {f"{count}_stderr", "reliable"} <= set(table.column_names):
        place = table.schema.get_field_index("reliable")
        counts = table[count].cast(pa.float64(), safe=False)  # some have no exact one
        reliable = is_reliable(counts, table[f"{count}_stderr"])
        table = table.set_column(place, table.schema.field(place), reliable)
    return in_order(table)


def _columns(table: pa.Table, is_kind: Callable[[pa.DataType], bool]) -> list[int]:
    return [n for n, each in enumerate(table.schema) if is_kind(each.type)]


def _with(table: pa.Table, place: int, values: list[Any]) -> pa.Table:
    kind = table.schema.field(place)
    return table.set_column(place, kind, pa.array(values, kind.type))


def other_texts(table: pa.Table, choice: random.Random) -> pa.Table:
    place = choice.choice(_columns(table, pa.types.is_string))
    values = table.column(place).to_pylist()
    for _ in range(choice.randint(1, 3)):
        values[choice.randrange(len(values))] = choice.choice((*TEXTS, None))
    return _with(table, place, values)


def other_lists(table: pa.Table, choice: random.Random) -> pa.Table:
    place = choice.choice(_columns(table, pa.types.is_list))
    values = table.column(place).to_pylist()
    new: tuple[Any, ...] = (
        None,
        [],
        [None],
        ["a", None],
        ["a"] * 5000,
        [choice.choice(TEXTS), "b"],
    )
    values[choice.randrange(len(values))] = choice.choice(new)
    return _with(table, place, values)


def other_counts(table: pa.Table, choice: random.Random) -> pa.Table:
    place = choice.choice(_columns(table, pa.types.is_integer))
    values = table.column(place).to_pylist()
    for _ in range(choice.randint(1, 3)):
        values[choice.randrange(len(values))] = choice.choice(COUNTS)
    return _with(table, place, values)


def other_errors(table: pa.Table, choice: random.Random) -> pa.Table:
    place = choice.choice(_columns(table, pa.types.is_floating))
    values = table.column(place).to_pylist()
    values[choice.randrange(len(values))] = choice.choice(ERRORS)
    return _with(table, place, values)


def repeated(table: pa.Table, choice: random.Random) -> pa.Table:
    times = min(choice.choice((2, 3, 500)), max(2, MOST_FORGED // max(1, table.nbytes)))
    return pa.concat_tables([table] * times).combine_chunks()


def shuffled(table: pa.Table, choice: random.Random) -> pa.Table:
    return table.take(choice.sample(range(table.num_rows), table.num_rows))


def fewer(table: pa.Table, choice: random.Random) -> pa.Table:
    return table.slice(choice.randrange(table.num_rows + 1))


def many(table: pa.Table, choice: random.Random) -> pa.Table:
    """Rows that differ in one text only, by the thousand."""
    place = choice.choice(_columns(table, pa.types.is_string))
    size, long = choice.choice(((300, 10_000), (3000, 20), (20_000, 1)))
    grown = table.take([0] * min(size, max(1, MOST_FORGED // max(1, table.slice(0, 1).nbytes))))
    return _with(grown, place, [f"{n} {'x' * long}" for n in range(grown.num_rows)])


def other_columns(table: pa.Table, choice: random.Random) -> pa.Table:
    return table.drop_columns([choice.choice(table.column_names)])


CHANGES = (
    *(other_texts, other_texts, other_lists, other_counts, other_counts, other_errors, many, fewer),
    *(repeated, shuffled, other_columns),
)


def change_both(bundle: Path, choice: random.Random) -> str:
    table = change_table(bundle, choice)
    return f"{table}; {change_certificate(bundle, choice)}"


SERVED: dict[str, Callable[[Path, random.Random], str]] = {
    "served certificates": change_certificate,
    "served tables": change_table,
    "served bundles": change_both,
}


# --- what is asked of them ------------------------------------------------------------------------


def serve_forged(
    name: str, *, seed: int, inputs: int, sound: Sequence[Path] | None = None
) -> Served:
    """Forges so many bundles in one way, shows those that are not refused, and asks."""
    choice, found = random.Random(f"{name} {seed}"), Served()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        sound = sound or make_sound(home)
        for _ in range(inputs):
            found.inputs += 1
            forged = home / "forged"
            shutil.rmtree(forged, ignore_errors=True)
            original = choice.choice(sound)
            shutil.copytree(original, forged)
            what = f"{original.name}, {SERVED[name](forged, choice)}"
            seal(forged)
            beside = [choice.choice(sound)] if choice.random() < 0.5 else []
            with _watched(found, f"{what}: at start"):
                try:
                    bundles = ServedBundles([forged, *beside])
                except (BundleError, OtherVersion):
                    continue
                found.shown += 1
                ask(bundles, found, choice, what)
    return found


@contextmanager
def _watched(found: Served, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        found.violations.append(f"{what}: {type(error).__name__}: {error!s:.200}")


def ask(bundles: ServedBundles, found: Served, choice: random.Random, what: str) -> None:
    """Asks the page for some addresses and holds the answers against the limits."""
    guard = application.make(bundles, verifier=verify_bundle, hosts=Hosts())
    asked = choice.sample(ADDRESSES, ASKED)
    asked += [choice.choice(SLOW)] if choice.random() < 0.05 else []
    with TestClient(guard, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        for address in asked:
            start = time.process_time()
            answer = client.get(address)
            seconds = time.process_time() - start
            found.answers += 1
            if not address.startswith(EXPORTS):
                found.largest = max(found.largest, len(answer.content))
            found.longest = max(found.longest, seconds)
            broken = []
            if answer.status_code >= 500:
                broken.append(f"status {answer.status_code}")
            if len(answer.content) > (MOST_EXPORT if address.startswith(EXPORTS) else MOST_BYTES):
                broken.append(f"{len(answer.content):,} bytes")
            if seconds > MOST_SECONDS:
                broken.append(f"{seconds:.1f} s of CPU")
            if broken:
                found.violations.append(f"{what}: {address}: {', '.join(broken)}")

"""`--by` with hostile names of columns, on every mechanism that takes it.

    python audits/attacks/by_names.py [--size 2000] [--names 12] [--only rounds]

A column of the log may have any name: one that the code uses itself (`unit`, `number`, `k0`), in any
case, one that SQL uses, one with quotes, spaces or dots, or one that looks or folds like another. A
release by such a column must publish what it publishes where the column is called `country`, and the
bundle must verify; or it is refused before anything is booked. It never fails inside (exit codes 5
and 70), and never after the budget is spent.

Every mechanism is tried with all names, and with further options with those of the code. Epsilon is
large. Keys must be equal; counts may differ by eight standard errors. Mechanisms that take no `--by` must refuse it.

Measured before columns of the log got names of our own, of 58 names: 10 wrong with rounds, 8 each with
threshold, korolova and zealous, 6 with k-query, 4 with k-keyword and safelog-literal, 3 with k-click
and users-30. `number` with rounds published other keys; `WHO`, beside a column `who` of users, counted by
the wrong column; `place` failed with 70 after the budget was booked; `Unit`, `Users` and `Keyword`
failed with 5.
"""

import argparse
import math
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

import murmurlog
from attacks.shared import REFUSALS, Finding, entries
from murmurlog.bundle.schema import SEVERAL, count_of
from murmurlog.errors import MurmurlogError
from murmurlog.mechanisms import MECHANISMS

PLAIN, VALUES = "country", ("DE", "FR")
ROLES = {"user": "who", "query": "asked", "time": "moment", "url": "clicked"}
OWN = (  # names that the code uses itself, and the same in other cases
    *("number", "item", "place", "unit", "users", "attention", "weight", "squares", "time"),
    *("query", "next_time", "by_value", "k0", "c0", "fault", "row", "rows", "of_query"),
    *("Number", "ITEM", "Place", "Unit", "Users", "Next_Query", "K0", "WHO", "Keyword", "Reliable"),
)
OTHERS = (
    # SQL, quotes, spaces, dots, other marks.
    *("select", "group", "null", "count(*)", "*", 'a"b', "a'b", "`country`", "a b", " country"),
    *("a.b", "raw.user", "a;b--", "a,b", "a=b", "a/b", "$.user", "a\\b", "{0}", "", "a\nb"),
    # Names that look or fold like others.
    *(
        "ｕｓｅｒｓ",
        "ｎｕｍｂｅｒ",
        "ıtem",
        "İtem",
        "uſers",
        "UNİT",
        "numbеr",
        "e\u0301",
        "\ufeffunit",
    ),
)
NAMES = OWN + OTHERS
# How each mechanism is asked for, beyond its own name; the others are tried as they are.
PUBLIC = "public.tsv"  # a file beside the log, for options that name one
VARIED: dict[str, tuple[dict[str, Any], ...]] = {
    "threshold": ({}, {"unit": "user-day"}),
    "rounds": ({}, {"bound": "random"}),
    "korolova": ({}, {"count": "rows", "tables": ("query", "click")}),
    "korolova-lists": (
        {"mechanism": "korolova", "result_lists": PUBLIC, "tables": ("query", "click")},
    ),
    "pool": ({"pool": PUBLIC, "tables": ("query",)},),
    "zealous-keywords": (
        {"mechanism": "zealous", "via_keywords": True, "tables": ("keyword", "query")},
    ),
    "k-query": ({"mechanism": "k-query:5"},),
    "k-click": ({"mechanism": "k-click:5"},),
    "k-keyword": ({"mechanism": "k-keyword:5"},),
    "k-session": ({"mechanism": "k-session:5"},),
}
START = 1_769_882_400  # a time in 2026
CHANCE = {"safelog-literal": 4}  # of 8 keys in a table, each is left out now and then
SHOWN = ("bound", "unit", "count")  # options that tell settings apart
OWN_BOUND = ("sessions", "label-paths", "session-tree", "hong")  # they take no --per-user


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a release ended: its exit code, bookings, and the tables with `country` for the column."""

    code: int
    booked: int
    said: str = ""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    verified: bool = True


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A mechanism with its options."""

    name: str
    options: Mapping[str, Any]

    @property
    def varied(self) -> bool:
        """Whether it was tried before with other options: then the names of our own will do."""
        return any(option in self.options for option in SHOWN)

    def __str__(self) -> str:
        shown = [f"{k}={v}" for k, v in self.options.items() if k in SHOWN]
        return " ".join([self.name, *shown])


def plain(name: str, **more: Any) -> Setting:
    """A mechanism with all tables that it can split by a column."""
    tables = MECHANISMS[name].tables
    able = tuple(table for table in tables if table not in SEVERAL)
    options: dict[str, Any] = {"mechanism": name, "tables": able or tables}
    if name.startswith(("k-", "users-", "safelog")):
        options["accept_no_guarantee"] = True
    return Setting(name=name, options=options | VARIED.get(name, ({},))[0] | more)


def settings() -> list[Setting]:
    """Every mechanism there is, in every way that is to be tried."""
    return [plain(name, **more) for name in MECHANISMS for more in VARIED.get(name, ({},))]


def log(size: int, column: str) -> pa.Table:
    """Every user asks the same four queries in both countries, one a minute, starting with another."""
    rows = []
    for n in range(size // 8):
        for minute in range(8):
            country, word = divmod((n + minute) % 8, 4)
            asked = (f"common word{word}", START + 60 * minute, f"a{word}.example/")
            rows.append((f"u{n}", *asked, VALUES[country]))
    names = [*ROLES.values(), column]
    return pa.table([list(values) for values in zip(*rows, strict=True)], names=names)


def released(path: Path, column: str, setting: Setting, folder: Path) -> Ended:
    """A release by a column, as the library makes it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ledger = folder / "ledger.db"
    asked: dict[str, Any] = {
        option: str(path.parent / PUBLIC) if value == PUBLIC else value
        for option, value in setting.options.items()
    }
    cost: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-6}
    if setting.name not in OWN_BOUND:
        cost["per_user"] = 8
    if "accept_no_guarantee" in asked:
        cost = {}
    else:
        murmurlog.Ledger(ledger).cap("web", epsilon=20, delta=1e-3, pure=10)
        cost |= {"ledger": ledger, "source_name": "web"}
    try:
        murmurlog.release(
            str(path), out=folder / "bundle", columns=ROLES, by=(column, VALUES), **cost, **asked,
        )  # fmt: skip
        found = murmurlog.load(folder / "bundle").tables
        tables = {kind: _renamed(found[kind], column) for kind in found}
        verified = _verified(folder / "bundle")
    except MurmurlogError as error:
        return Ended(code=error.exit_code, booked=entries(ledger), said=str(error))
    except Exception as error:  # the command line would print 70
        return Ended(code=70, booked=entries(ledger), said=f"{type(error).__name__}: {error}")
    return Ended(code=0, booked=entries(ledger), tables=tables, verified=verified)


def _verified(bundle: Path) -> bool:
    """Whether a bundle passes all checks but the one that k-anonymity fails by design."""
    failed = [check.message for check in murmurlog.verify(bundle).checks if not check.ok]
    return all("NO privacy guarantee" in message for message in failed)


def _renamed(table: pa.Table, column: str) -> pa.Table:
    return table.rename_columns([PLAIN if name == column else name for name in table.column_names])


def difference(before: Ended, after: Ended, chance: int) -> str | None:
    """What two releases do not have in common; None if their counts are as good as equal.

    Of the keys `chance` may differ where they are chosen at random, in an order of the engine's.
    """
    if before.tables.keys() != after.tables.keys():
        return f"tables {sorted(before.tables)} and {sorted(after.tables)}"
    for kind, one in before.tables.items():
        other = after.tables[kind]
        if one.column_names != other.column_names:
            return f"{kind}: columns {one.column_names} and {other.column_names}"
        was, now = _counts(one), _counts(other)
        if len(was.keys() ^ now.keys()) > chance:
            return f"{kind}: {len(was.keys() ^ now.keys())} keys of {len(was)} differ"
        for key in was.keys() & now.keys():
            users, error = was[key]
            if abs(users - now[key][0]) > 1 + 8 * math.hypot(error, now[key][1]):
                return f"{kind}: {users} users of {key} became {now[key][0]}"
    return None


def _counts(table: pa.Table) -> dict[tuple[str, ...], tuple[int, float]]:
    """Keys, with their counts and standard errors; zeros where only keys are published."""
    texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
    keys = list(zip(*(table[name].to_pylist() for name in texts), strict=True))
    count = count_of(table)
    if count is None:
        return dict.fromkeys(keys, (0, 0.0))
    pairs = zip(table[count].to_pylist(), table[f"{count}_stderr"].to_pylist(), strict=True)
    return dict(zip(keys, pairs, strict=True))


def wrong(before: Ended, after: Ended, *, chance: int = 0) -> str | None:
    """What is wrong with a release by a hostile name; None if nothing is."""
    if after.code in REFUSALS:
        return f"refused ({after.code}) after it was booked" if after.booked else None
    if after.code:
        booked = ", and it is booked" if after.booked else ""
        return f"exit code {after.code}{booked}: {' '.join(after.said.split())[:90]}"
    if not after.verified:
        return "the bundle does not verify"
    return difference(before, after, chance)


def judged(
    setting: Setting, logs: Mapping[str, Path], expected: Path, folder: Path
) -> tuple[str, Finding]:
    """A line of the table about one mechanism, and what it comes to."""
    before = released(expected, PLAIN, setting, folder)
    if before.code in REFUSALS and "--by" in before.said and not before.booked:
        line = f"{setting!s:28} takes no --by: refused ({before.code})"
        return line, Finding(word=f"REFUSED ({before.code})", text=line)
    if before.code or not before.verified or any(not t.num_rows for t in before.tables.values()):
        text = f"by {PLAIN}: exit code {before.code} {before.said[:120]}, or unsound tables"
        return f"{setting!s:28} {text}", Finding(word="BROKEN", text=f"{setting}: {text}")
    ends: Counter[str] = Counter()
    faults = []
    tried = {name: path for name, path in logs.items() if not setting.varied or name in OWN}
    for name, path in tried.items():
        after = released(path, name, setting, folder)
        if fault := wrong(before, after, chance=CHANCE.get(setting.name, 0)):
            ends["WRONG"] += 1
            faults.append(f"    {name!r:.40}: {fault}")
        else:
            ends[f"refused ({after.code})" if after.code else "equal"] += 1
    listed = ", ".join(f"{n} {what}" for what, n in sorted(ends.items()))
    lines = "\n".join([f"{setting!s:28} {listed}", *faults])
    text = f"{setting}: {len(faults)} of {len(tried)} names"
    return lines, Finding(word="BROKEN" if faults else "HOLDS", text=text)


def attack(
    folder: Path, size: int, *, names: Sequence[str], settings: Sequence[Setting]
) -> Iterator[tuple[str, Finding]]:
    """Lines of the table and a finding for every setting."""
    logs = {name: folder / f"log{number}.parquet" for number, name in enumerate(names)}
    expected = folder / "expected.parquet"
    for name, path in {**logs, PLAIN: expected}.items():
        pq.write_table(log(size, name), path)
    (folder / PUBLIC).write_text("common word0\ta0.example/\n")
    for setting in settings:
        yield judged(setting, logs, expected, folder / "release")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=2_000, help="rows; default 2000")
    parser.add_argument("--names", type=int, default=len(NAMES), help="how many; default all")
    parser.add_argument("--only", default="", help="mechanisms whose name holds this text")
    given = parser.parse_args()
    findings = []
    names = NAMES[: given.names]
    chosen = [setting for setting in settings() if given.only in str(setting)]
    with tempfile.TemporaryDirectory() as place:
        for line, finding in attack(Path(place), given.size, names=names, settings=chosen):
            print(line, flush=True)
            findings.append(finding)
    broken = [finding.text for finding in findings if finding.broken]
    if broken:
        print(f"BROKEN: {'; '.join(broken)}")
        return 1
    print(f"HOLDS: {len(findings)} settings, {len(names)} names: equal counts, or refused unbooked")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Give every public parameter of a release an extreme value, and look at what is booked.

    python audits/parameters.py [--share 1] [--seed 1] [--only rounds]

Every mechanism, with every parameter that it takes at every extreme value, runs through
`murmurlog.release` on a small log with a ledger; then pairs of extreme values are drawn. The private
profile, which is booked too, is walked in the same way.

A setting is either refused before anything is booked, by an error that names what is wrong (exit code
2, 3 or 4), or it works: the bundle is there, booked, and `verify` passes. Anything else is a violation:
another exception (but for a path that leads nowhere), an internal error, a booking without a bundle, a
run of more than SECONDS.
Exit 0 only without violations.
"""

import argparse
import math
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from murmurlog import Ledger, MurmurlogError, release, verify
from murmurlog.cli.main import NO_PATH

SECONDS = 60  # of a processor, for one setting
MEMORY = 12 << 30  # of the address space
PAIRS = 20  # drawn for each mechanism
REFUSALS = (2, 3, 4)

WHOLE: tuple[Any, ...] = (
    0, -1, 1, 3, 1000, 100_000, 100_001, 1 << 31, 1 << 62, 1 << 63, 10**19, 10**400, 1e-300, 1e19, 2.5,
    math.nan, math.inf, "", "1", [], True,
)  # fmt: skip
REAL: tuple[Any, ...] = (
    0, -1, 5e-324, 1e-300, 1e-15, 1e-5, 0.5, math.nextafter(1, 0), 1, 30, 710, 9_999, 1e19, 2.0**63, 1e300, math.nan,
    math.inf, -math.inf, 10**400, "", "1", [], True,
)  # fmt: skip
LETTER: tuple[Any, ...] = (
    "0", "-1", "1", "1e-300", "1e-4", "2.5", "1000", "100000", "1048575", "1e12", "1099511627776", "1e19",
    "9223372036854775808", "1e300", "1e400", "nan", "inf", "-inf", "", " ", "x", "9" * 500, "1_1", "1_", "1e19_1e19",
)  # fmt: skip
TEXT: tuple[Any, ...] = ("", " ", "x", "\x00", "x" * 20_000, [], 0)
SHARES: tuple[Any, ...] = (
    {}, {"query": 1}, {"query": 0, "click": 1}, {"query": -1, "click": 2}, {"query": 1e-300, "click": 1.0},
    {"query": math.nan, "click": 1}, {"query": math.inf, "click": 1}, {"query": "", "click": 1}, "", [],
    {"query": 1e-12, "click": 1 - 1e-12}, {"query": 5e-324, "click": 1}, {"query": 0.999999, "click": 1e-6},
)  # fmt: skip
SPLITS: tuple[Any, ...] = (
    *({"select": x, "query": 1 - x} for x in (0, 1, -1, 1e-300, 1e-12, 0.5, math.nan, math.inf)),
    {}, "", [], {"select": 1}, {"select": 0.5, "query": "x"}, {"select": 0.4, "query": 0.4},
)  # fmt: skip
LISTS: tuple[Any, ...] = ((), [], "", [""], "query", ["query", "query"], [0], {}, 0)
MAPPINGS: tuple[Any, ...] = ({}, [], "", 0, {"": ""}, {"x": 0})
BY: tuple[Any, ...] = (
    ("country", []), ("country", ""), ("", ["DE"]), ("country", [""]), ("country", [0]), (), [], "", ("country",),
    ("country", ["DE"] * 2), ("country", "DE"), ("country", ["DE"]),
)  # fmt: skip
# What every release takes.
COMMON: Mapping[str, tuple[Any, ...]] = {
    "epsilon": REAL, "delta": REAL, "per_user": WHOLE, "users": WHOLE, "gap": REAL, "set_size": WHOLE,
    "max_broken": REAL, "memory": ("", "0", "-1", "1e19GB", "0GB", "1B", "inf", "nanGB", 0, [], "300MB"),
    "of_cap": REAL, "noise": TEXT, "bound": TEXT, "unit": TEXT, "neighbours": (*TEXT, "replace"),
    "letters": MAPPINGS,
}  # fmt: skip
# What is the same for all mechanisms, so that one of them is enough.
GENERAL: Mapping[str, tuple[Any, ...]] = {
    "tables": LISTS, "mechanism": (*TEXT, {}, {"query": ""}), "url": TEXT, "keys": TEXT, "since": TEXT, "until": TEXT,
    "where": MAPPINGS, "by": BY, "about": (*MAPPINGS, {"title": ""}), "unprotected": LISTS,
    "source_name": TEXT, "after": ("", [""], [0], ["ledger"], 0), "select_from": TEXT, "count_from": TEXT,
    "columns": MAPPINGS, "format": TEXT, "delimiter": TEXT, "encoding": TEXT, "time_format": TEXT, "missing": LISTS,
    "shape": TEXT, "patterns": TEXT, "deny": TEXT, "engine": TEXT, "shares": SHARES, "per_user": (
        {}, {"query": 0}, {"query": 1 << 63}, {"query": math.nan}, {"": 1}, {"click": 1}, {"query": ""}),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Base:
    """A release that works, and the parameters to change in it."""

    name: str
    keywords: Mapping[str, Any]
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    letters: tuple[str, ...] = ()  # of `--set`, each of which is changed
    booked: bool = True  # a mechanism without a guarantee cannot be

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Every parameter with every value; a letter is called set.X."""
        for name, values in self.parameters.items():
            yield from ((name, value) for value in values)
        for letter in self.letters:
            yield from ((f"set.{letter}", value) for value in LETTER)

    def changed(self, *changes: tuple[str, Any]) -> dict[str, Any]:
        """The keywords with these changes."""
        keywords = dict(self.keywords)
        for name, value in changes:
            if name.startswith("set."):
                letters = keywords.get("letters")
                own = letters if isinstance(letters, Mapping) else {}
                keywords["letters"] = {**own, name.removeprefix("set."): value}
            else:
                keywords[name] = value
        return keywords


def bases(folder: Path) -> list[Base]:
    """Every mechanism, by its budget and by its own parameters."""
    pool, lists, labels = (folder / name for name in ("pool.txt", "lists.tsv", "labels.tsv"))
    pool.write_text("".join(f"q{n}\n" for n in range(400)), encoding="utf-8")
    lists.write_text("".join(f"q{n}\tx.com\n" for n in range(40)), encoding="utf-8")
    labels.write_text("".join(f"q{n}\tlabel{n % 2}\n" for n in range(40)), encoding="utf-8")

    def by_budget(name: str, *tables: str, title: str = "", **more: Any) -> Base:
        own = {n: more.pop(n) for n in list(more) if n.startswith("try_")}
        parameters = {**COMMON, **{n.removeprefix("try_"): values for n, values in own.items()}}
        keywords = {"mechanism": name, "tables": tables, "epsilon": 5.0, "delta": 1e-3, **more}
        return Base(name=title or f"{name} {'+'.join(tables)}", keywords=keywords, parameters=parameters)  # fmt: skip

    def by_letters(name: str, table: str, text: str, *others: str, **more: Any) -> Base:
        letters = dict(part.split("=") for part in text.split(","))
        parameters = {n: COMMON[n] for n in ("epsilon", "delta", "users", "neighbours")}
        keywords = {"mechanism": name, "tables": (table,), "letters": letters, **more}
        return Base(name=f"{name} --set", keywords=keywords, parameters=parameters, letters=(*letters, *others))  # fmt: skip

    def without_guarantee(name: str, *tables: str, **more: Any) -> Base:
        own = {n: more.pop(n) for n in list(more) if n.startswith("try_")}
        parameters = {**COMMON, **{n.removeprefix("try_"): values for n, values in own.items()}}
        keywords = {"mechanism": name, "tables": tables, "accept_no_guarantee": True, **more}
        return Base(name=name, keywords=keywords, parameters=parameters, booked=False)  # fmt: skip

    cut: dict[str, Any] = {"try_sessions_per_user": WHOLE, "try_queries_per_session": WHOLE}
    rounds: dict[str, Any] = {
        "try_rounds": WHOLE,
        "try_count_share": REAL,
        "try_count_per_user": WHOLE,
    }
    pooled: dict[str, Any] = {"pool": str(pool), "try_fakes": REAL, "try_pool": TEXT}
    spent = {"epsilon": 3.0, "accept_delta": True}
    s = "1.5_1.4_1.3"
    return [
        Base(
            name="general",
            keywords={"tables": ("query", "click"), "epsilon": 5.0, "delta": 1e-3},
            parameters=GENERAL,
        ),
        by_budget("threshold", "query", "click", try_shares=SHARES),
        by_budget("threshold", "itemset", "pair", "keyword"),
        by_letters("threshold", "query", "d=2,b=2,T=12", "K", "scale", "sigma", "noise"),
        by_letters("threshold", "query", "d=2,sigma=2,T=12", **spent),
        by_budget("rounds", "query", "click", try_shares=SHARES, **rounds),
        by_budget("rounds", "query", title="rounds with a pool", **rounds, **pooled),
        by_budget("rounds", "query", "left_out", title="left_out"),
        by_letters(
            "rounds", "query", f"d=2,s={s},T=9e6_9e6_9e6", "own", "past", "C", "reach", "focus", "sigma1", "sigma_h", "d2",
            "sigma", "N", "TP", **spent
        ),
        by_letters(
            "rounds", "query", "d=2,s=1.5,T=9e6,own=1,C=3,reach=1.3,focus=0.3,sigma1=1.5,sigma_h=4,d2=2", **spent
        ),
        by_letters(
            "rounds", "query", "d=2,s=1.5,T=9e6,N=400,TP=6e6", pool=str(pool), **spent
        ),
        by_budget("korolova", "query", "click", try_count=TEXT, try_shares=SHARES),
        by_budget("korolova", "query", title="korolova split", try_split=SPLITS, try_count=("rows",)),
        by_budget("korolova", "query", "click", title="korolova-lists", result_lists=str(lists), try_result_lists=TEXT),
        by_letters("korolova", "query", "d=2,b=2,T=12,b_q=2", "K", "count", "b_c"),
        by_budget("zealous", "query", try_notion=TEXT, try_fakes=REAL),
        by_budget("zealous", "query", title="zealous pdp", notion="pdp", users=60, accept_delta=True),
        by_budget("zealous", "keyword", "query", title="zealous-keywords", via_keywords=True, try_fakes=REAL),
        by_letters("zealous", "query", "m=2,lam=2,T=12", "tau", "users", "K"),
        by_letters("zealous", "query", "m=2,lam=2,T=30,users=60", users=60, accept_delta=True),
        by_budget("pool", "query", **pooled),
        by_letters("pool", "query", "d=2,b=2,N=400,T=12", pool=str(pool)),
        by_budget("sessions", "session", "query", **cut, try_subsequences=TEXT, try_shares=(
            {"session": 1e-300, "query": 1}, {"session": 0.5, "query": 0.5})),
        by_budget("sessions", "session", title="label-paths", map=str(labels), try_map=(*TEXT, "length"), try_fakes=REAL, **cut),
        by_letters("sessions", "session", "l_s=1,l_q=3,b=2,T=20", "subsequences", "noise"),
        by_budget("session-tree", "session", **cut, **rounds),
        by_letters("session-tree", "session", f"l_s=1,l_q=3,s={s},T=9e6_9e6_9e6", "sigma1", "sigma_h", "d2", **spent),
        by_budget("synthetic", "log", try_measure=(*TEXT, "together", "rank,hour,count")),
        by_budget("synthetic", "log", title="synthetic measured", measure="together,rank,hour,count"),
        by_letters("synthetic", "log", "noise=geometric,d=2,scale=2,T=12,b_sizes=2", "b_rank", "b_hour", "b_count", "r"),
        without_guarantee("hong", "log", try_objective=TEXT, try_support=REAL, try_output_size=WHOLE, try_diversity=TEXT),
        without_guarantee("hong", "log", objective="frequent", try_support=REAL, try_output_size=WHOLE),
        without_guarantee("hong", "log", objective="breach", try_output_size=WHOLE),
        without_guarantee("hong", "log", objective="diverse", diversity="queries"),
        without_guarantee("safelog-literal", "query", "click", try_pool=TEXT, pool=str(pool)),
        replace(
            by_letters("safelog-literal", "query", "q_f=2,c_f=2,b=2,b_q=2,b_c=2,K=5", accept_no_guarantee=True),
            booked=False,
        ),
        *(
            without_guarantee(f"{name}:2", table, try_mechanism=tuple(f"{name}:{x}" for x in (*LETTER, "02")))
            for name, table in (("k-query", "query"), ("k-click", "click"), ("k-session", "session"), ("k-keyword", "keyword"))
        ),
        without_guarantee("users-30", "query"),
    ]  # fmt: skip


def write_log(path: Path) -> Path:
    """A log of 60 users with sessions, clicks, ranks and a public column."""
    lines = ["user,time,query,url,rank,country"]
    for user in range(60):
        for n in range(4):
            minute = f"2026-01-{1 + user % 28:02}T10:{n:02}:00"
            lines.append(f"u{user},{minute},q{n},x.com/{n},{n + 1},{'DE' if user % 2 else 'FR'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@dataclass
class Counts:
    """What came of the settings."""

    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return sum(self.outcomes.values())


class Slow(BaseException):
    """A setting that takes more than SECONDS."""


class Walk:
    """Runs settings, each with a ledger and a folder of its own."""

    def __init__(self, folder: Path, *, verified: bool = True, traces: bool = False) -> None:
        self.folder, self.verified, self.traces = folder, verified, traces
        self.log = write_log(folder / "log.csv")
        self.number = 0
        self.template = folder / "template.db"
        books = Ledger(self.template)
        books.cap("web", epsilon=20, delta=0.999, pure=10)

    def run(self, base: Base, *changes: tuple[str, Any]) -> tuple[str, str]:
        """What came of a setting, and its ending."""
        self.number += 1
        own = self.folder / f"run-{self.number}"
        own.mkdir()
        keywords = base.changed(*changes)
        out, books = own / "bundle", own / "books.db"
        if base.booked:
            shutil.copy(self.template, books)
            keywords = {"ledger": books, "source_name": "web", **keywords}
            if keywords.get("of_cap") is not None:  # which takes the place of both
                keywords |= {
                    n: None
                    for n in ("epsilon", "delta")
                    if n not in dict(changes) and n in keywords
                }
        try:
            with _limited():
                release(self.log, out=out, **keywords)
                ending, outcome = "", "released"
                if base.booked and self.verified:
                    ending, outcome = _verified(out)
        except MurmurlogError as error:
            ending = f"exit {error.exit_code}: {error}"
            outcome = "refused" if error.exit_code in REFUSALS else "violation"
        except OSError as error:
            ending, outcome = repr(error), "refused" if error.errno in NO_PATH else "violation"
        except Slow:
            ending, outcome = f"more than {SECONDS} s", "violation"
        except Exception as error:
            ending, outcome = f"{type(error).__name__}: {error}", "violation"
            if self.traces:
                traceback.print_exc()
        states = [e.state for e in Ledger(books).entries()] if books.exists() else []
        if outcome == "refused" and (states or out.exists()):
            outcome, ending = "violation", f"booked ({', '.join(states)}) and refused, {ending}"
        if outcome == "released" and (
            not out.exists() or (base.booked and states != ["committed"])
        ):
            outcome, ending = "violation", f"released but booked as {states}"
        shutil.rmtree(own, ignore_errors=True)
        return outcome, ending


def _verified(out: Path) -> tuple[str, str]:
    report = verify(out)
    if report.ok:
        return "", "released"
    failed = [check.name for check in report.checks if not check.ok]
    return f"released, and verify fails: {failed[:2]}", "violation"


class _limited:
    """Around a setting: its time is limited."""

    def __enter__(self) -> None:
        def stop(_: int, __: FrameType | None) -> None:
            raise Slow

        self.before = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.before)


def walk(
    *,
    share: float = 1.0,
    seed: int = 1,
    only: str = "",
    pairs: int = PAIRS,
    traces: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Counts]:
    """Every setting, or a share of them drawn by the seed, and pairs of settings."""
    choice = random.Random(seed)
    results: dict[str, Counts] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Walk(Path(folder), traces=traces)
        for base in bases(Path(folder)):
            if not base.name.startswith(only):
                continue
            settings = list(base.settings())
            singles = [(setting,) for setting in settings if choice.random() < share]
            doubles = [tuple(choice.sample(settings, 2)) for _ in range(round(pairs * share))]
            runs: list[tuple[tuple[str, Any], ...]] = [(), *singles, *doubles]
            counts = results.setdefault(base.name, Counts())
            for changes in runs:
                start = time.process_time()
                outcome, ending = runner.run(base, *changes)
                if not changes and outcome != "released":
                    outcome = "violation"
                counts.outcomes[outcome] += 1
                shown = ", ".join(f"{name}={value!r:.50}" for name, value in changes)
                if outcome == "violation":
                    counts.violations.append(f"{base.name}: {shown or 'as it is'}: {ending:.300}")
                    say(f"VIOLATION {counts.violations[-1]}")
                elif traces:
                    say(f"{outcome} {shown} {ending:.200}")
                if (seconds := time.process_time() - start) > 10:
                    say(f"slow ({seconds:.0f} s) {base.name}: {shown}")
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="Extreme parameters, and what came of them.")
    parser.add_argument("--share", type=float, default=1.0, help="of the settings, drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", default="", help="mechanisms whose name begins so")
    parser.add_argument("--traces", action="store_true", help="print tracebacks and outcomes")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    start = time.monotonic()
    results = walk(
        share=arguments.share,
        seed=arguments.seed,
        only=arguments.only,
        pairs=arguments.pairs,
        traces=arguments.traces,
    )
    line = "{:<34}{:>7}{:>10}{:>10}{:>12}"
    print(line.format("mechanism", "tried", "refused", "released", "violations"))
    for name, counts in results.items():
        shown = counts.outcomes
        print(line.format(name, counts.tried, shown["refused"], shown["released"], len(counts.violations)))  # fmt: skip
    total = sum((counts.outcomes for counts in results.values()), Counter[str]())
    print(line.format("all", total.total(), total["refused"], total["released"], total["violation"]))  # fmt: skip
    print(f"{time.monotonic() - start:.0f} s")
    return 0 if not total["violation"] else 1


if __name__ == "__main__":
    sys.exit(main())

"""The values that a release keys: at most as many a row as its options say, so that the stated delta covers them."""

import math
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.counting import items
from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.log import Log
from murmurlog.logs.rows import RowReader
from murmurlog.logs.text_keys import TextKeys
from murmurlog.privacy.sampler import MOST_LISTED, MOST_VALUES, SeededEntropy
from murmurlog.publishing import keyed_values, tables
from murmurlog.publishing.release import release

START = np.datetime64("2026-03-01T12:00:00", "us")
BUDGET = {"epsilon": 8.0, "delta": 1e-6}


def make_log(rows):
    """A log of (user, minute, query) or (user, minute, query, url), all of one country."""
    user, minute, query, *url = zip(*rows, strict=True)
    return pa.table(
        {
            "user": user,
            "time": START + np.array(minute) * np.timedelta64(60_000_000, "us"),
            "query": query,
            "url": url[0] if url else [None] * len(rows),
            "country": ["DE" if place % 3 else "FR" for place in range(len(rows))],
        }
    )


class Keyed:
    """What a release keyed: the distinct values, the rows, and how many values a row may have."""

    def __init__(self):
        self.values, self.rows, self.listed, self.a_row, self.plans, self.view = (
            set(),
            0,
            0,
            0,
            {},
            None,
        )

    @property
    def most(self):
        return self.rows * self.a_row + self.listed


@contextmanager
def watched():
    """Sees every value that is keyed."""
    keyed = Keyed()

    def note(lane, method, *arguments):
        keys = method(*arguments)
        keyed.values |= {(lane, *key) for key in keys.tolist()}
        keyed.listed = arguments[0]._table_values
        return keys

    def combine(own, text_keys, parts):
        return note("items", own, text_keys, parts) if len(parts) > 1 else parts[0]

    def check(log, plans, view):
        keyed.rows, keyed.a_row = log.keyed, keyed_values.values_a_row(plans, view)
        keyed.plans, keyed.view = plans, view

    hashed, lists, combined = TextKeys._hash, TextKeys.lists, TextKeys.combine
    with (
        patch.object(TextKeys, "_hash", lambda *a: note("texts", hashed, *a)),
        patch.object(TextKeys, "lists", lambda *a: note("lists", lists, *a)),
        patch.object(TextKeys, "combine", lambda *a: combine(combined, *a)),
        patch.object(tables, "check_values", check),
    ):
        yield keyed


def release_watched(log, tmp_path, **options):
    with watched() as keyed:
        release(log, out=tmp_path / "bundle", **{**BUDGET, **options}, entropy=SeededEntropy(1))
    return keyed


def make_random_log(rng):
    words = [f"w{n}" for n in range(int(rng.integers(2, 40)))]
    rows = []
    for _ in range(int(rng.integers(1, 60))):
        query = " ".join(rng.choice(words, int(rng.integers(1, 5))))
        query = query.upper() if rng.random() < 0.3 else query
        url = f"http://www.site{rng.integers(9)}.example/Path?x" if rng.random() < 0.5 else None
        rows.append((f"user {rng.integers(5)}", int(rng.integers(2000)), query, url))
    return make_log(rows)


def choose_options(rng):
    mechanism = str(rng.choice(["rounds", "threshold", "zealous", "korolova"]))
    options = {"mechanism": mechanism, "per_user": int(rng.choice([1, 4, 50, 900]))}
    kinds = ["query", "click", "pair", "keyword"]
    if rng.random() < 0.5:
        options["by"] = ("country", ["DE", "FR"])
    elif mechanism in ("rounds", "threshold"):
        kinds += ["itemset", "session"]
        options["set_size"] = int(rng.integers(1, 5))
    chosen = rng.choice(kinds, int(rng.integers(1, 4)), replace=False).tolist()
    if "session" in chosen:
        options["mechanism"] = dict.fromkeys(chosen, mechanism) | {"session": "sessions"}
        options["queries_per_session"] = int(rng.integers(2, 7))
        if chosen == ["session"]:
            options.pop("per_user")
    if mechanism != "korolova":
        options["unit"] = str(rng.choice(["user", "user-day"]))
    return options | {"tables": chosen}


@pytest.mark.parametrize("seed", range(40))
def test_random_releases_key_no_more_values_than_their_options_say(seed, tmp_path):
    rng = np.random.default_rng(seed)
    options = choose_options(rng)
    keyed = release_watched(make_random_log(rng), tmp_path, **options)
    assert 0 < len(keyed.values) <= keyed.most, options


WORDS = " ".join(f"word{n}" for n in range(400))
SEARCHES = [("anna", place, f"query {place}") for place in range(12)]
CLICKS = [
    (f"user {n}", place, f"q {place}", f"http://s{place}.example/")
    for n in range(60)
    for place in range(12)
]


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([("anna", 0, WORDS)], {"tables": ["keyword"]}),
        ([("anna", 0, WORDS)], {"tables": ["keyword"], "by": ("country", ["DE", "FR"])}),
        (SEARCHES[:6], {"tables": ["session"], "queries_per_session": 6}),
        (
            SEARCHES,
            {
                "tables": ["session"],
                "mechanism": "session-tree",
                "queries_per_session": 9,
                "sessions_per_user": 1,
            },
        ),
        (SEARCHES, {"tables": ["itemset"], "set_size": 4, "per_user": 1000}),
    ],
)
def test_what_a_table_may_key_is_needed(rows, options, tmp_path):
    """Where it is dense: without the share of this table the bound would be broken."""
    keyed = release_watched(make_log(rows), tmp_path, **options)
    assert len(keyed.values) <= keyed.most
    (share,) = (
        keyed_values._of_table(kind, plan.mechanism.parameters(), keyed.view)
        for kind, plan in keyed.plans.items()
    )
    assert len(keyed.values) > keyed.rows * (keyed.a_row - share)


def test_every_two_published_clicks_of_a_unit_are_values(tmp_path):
    """Those that several units have are the same: a row brings far fewer than it may."""
    options = {"tables": ["log"], "measure": "together", "per_user": 12, "epsilon": 12.0}
    keyed = release_watched(make_log(CLICKS), tmp_path, **options)
    assert len({value for value in keyed.values if value[0] == "items"}) == 12 + math.comb(12, 2)
    (plan,) = keyed.plans.values()
    share = keyed_values._of_table("log", plan.mechanism.parameters(), keyed.view)
    assert 12 * share >= 2 * 12 + math.comb(12, 2)
    assert len(keyed.values) <= keyed.most


def test_only_the_first_words_of_a_query_are_keywords():
    texts = pa.array([WORDS, "Ä " + WORDS, "one two one", " ".join(["a", "b"] * 300)])
    plain, others, short, repeated = items.cut_words(texts).to_pylist()
    assert plain == WORDS.split()[:256]
    assert others == ["ä", *WORDS.split()[:255]] or others == ["Ä", *WORDS.split()[:255]]
    assert short == ["one", "two", "one"]
    assert repeated == ["a", "b"]


def test_every_row_that_is_keyed_is_counted(tmp_path):
    """Also those that are broken, too long, screened, without a unit or outside the period."""
    rows = [
        ("anna", 0, "a query"), (None, 1, "of nobody"), ("anna", 2, None), ("ben", 3, "me@mail.example"),
        ("ben", 9_999_999, "far in the future"), ("ben", 4, "x" * 2_000_001), ("carl", 5, "another"),
    ]  # fmt: skip
    seen = []
    clean = RowReader.clean

    def count(reader, batch):
        seen.append(batch.num_rows)
        return clean(reader, batch)

    with patch.object(RowReader, "clean", count), watched() as keyed:
        release(
            make_log(rows), out=tmp_path / "bundle", **BUDGET, tables=["query"], until="2026-03-02",
            max_broken=1.0, screen=True, entropy=SeededEntropy(1),
        )  # fmt: skip
    assert keyed.rows == sum(seen) == len(rows)


def test_a_log_with_more_rows_than_the_proof_covers_is_refused(tmp_path):
    log = make_log([("anna", 0, WORDS)])
    with watched() as keyed:
        release(
            log, out=tmp_path / "bundle", **BUDGET, tables=["keyword"], entropy=SeededEntropy(1)
        )
    most = keyed_values.most_rows(keyed.plans, keyed.view)
    assert most * keyed.a_row + 2 * MOST_LISTED <= MOST_VALUES
    assert most > 200_000_000
    large = Log(
        partitions=None, source=type("Source", (), {"name": "log"}), unit="user", text_keys=None,
        rows=1, keyed=most,
    )  # fmt: skip
    keyed_values.check_values(large, keyed.plans, keyed.view)
    with pytest.raises(EngineError, match="more than the .* proved with keyword: release a part"):
        keyed_values.check_values(replace(large, keyed=most + 1), keyed.plans, keyed.view)


def test_public_lists_that_are_too_long_in_all_are_refused(monkeypatch):
    monkeypatch.setattr("murmurlog.logs.text_keys.MOST_LISTED", 10)
    keys = TextKeys(SeededEntropy(1).stream("keys"))
    keys.columns([pa.array(["a", "b"]), pa.array(["c", "d"])])
    with pytest.raises(UsageError, match="more than 10 values in all"):
        keys.columns([pa.array([["a", "b"]])])


def test_a_table_without_a_proved_number_of_values_is_refused():
    with pytest.raises(NotImplementedError, match="not proved"):
        keyed_values._of_table("query by hour", {}, None)

"""Counts that go together: the nearest ones, exactly, and checked again by verify."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_array

import murmurlog
from murmurlog.bundle.consistency import nearest, noisy_table, reconciled
from murmurlog.bundle.export import export
from murmurlog.bundle.read import load
from murmurlog.bundle.schema import By, in_order, schema, tied
from murmurlog.bundle.write import publish
from murmurlog.errors import UsageError
from murmurlog.privacy.sampler import SeededEntropy, draw


def counted(kind, *rows, stderr=1.0, by=None):
    """A table of (keys ..., users)."""
    wanted = schema(kind, by=by)
    error = iter(stderr) if isinstance(stderr, list) else iter([stderr] * len(rows))
    made = []
    for row in rows:
        one = next(error)
        made.append([*row, one, 4 * one <= row[-1]])
    names = wanted.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in made], wanted)


def users(table):
    return table["users"].to_pylist()


def test_a_click_above_its_query_meets_it_by_their_weights():
    query, click = counted("query", ("a", 10), stderr=1.0), counted("click", ("a", "x", 40))
    made = reconciled({"query": query, "click": click})
    assert users(made["query"]) == users(made["click"]) == [25]
    sure = counted("query", ("a", 10), stderr=0.5)
    made = reconciled({"query": sure, "click": click})
    assert users(made["query"]) == users(made["click"]) == [16]  # (4 * 10 + 40) / 5
    assert made["query"]["users_noisy"].to_pylist() == [10]
    assert made["query"]["users_stderr"].to_pylist() == [0.5]


def test_where_nothing_is_broken_nothing_moves():
    given = {
        "query": counted("query", ("a", 30), ("b", 20)),
        "click": counted("click", ("a", "x", 30), ("b", "x", 1), ("c", "x", 500)),
        "pair": counted("pair", ("a", "b", 20)),
        "session": counted("session", (["a", "b", "a"], 20)),
        "itemset": counted("itemset", (["a", "b"], 7)),
    }
    made = reconciled(given)
    for name, table in given.items():
        assert users(made[name]) == users(table) == made[name]["users_noisy"].to_pylist()
        assert made[name].schema.equals(schema(name, consistent=True))


def test_what_is_reliable_follows_the_new_count():
    given = {
        "query": counted("query", ("a", 3), stderr=1.0),
        "click": counted("click", ("a", "x", 30), stderr=5.0),
    }
    assert given["click"]["reliable"].to_pylist() == [True]
    made = reconciled(given)
    assert users(made["click"]) == users(made["query"]) == [4]
    assert made["click"]["reliable"].to_pylist() == [False]
    assert made["query"]["reliable"].to_pylist() == [True]


def test_a_negative_count_becomes_zero():
    made = reconciled({"query": counted("query", ("a", -7)), "click": counted("click")})
    assert users(made["query"]) == [0]


def test_a_list_is_held_against_all_its_queries_and_a_pair_against_both():
    query = counted("query", ("a", 10), ("b", 20), ("c", 30), stderr=1e-3)
    for name, row in (
        ("session", (["c", "b", "a"], 25)),
        ("itemset", (["a", "c"], 25)),
        ("pair", ("c", "a", 25)),
        ("pair", ("a", "c", 25)),
    ):
        made = reconciled({"query": query, name: counted(name, row)})
        assert users(made[name]) == [10], (name, row)


def test_with_a_column_that_splits_the_tables_only_the_same_value_counts():
    by = By(column="country", values=("DE", "FR"))
    query = counted("query", ("a", "DE", 10), ("a", "FR", 50), by=by)
    click = counted("click", ("a", "x", "DE", 30), ("a", "x", "FR", 40), by=by)
    made = reconciled({"query": query, "click": click})
    assert users(made["query"]) == [20, 50]
    assert users(made["click"]) == [20, 40]


def test_halves_are_rounded_down_whatever_the_order():
    for tables in (["query", "click"], ["click", "query"]):
        given = {"query": counted("query", ("a", 10)), "click": counted("click", ("a", "x", 11))}
        made = reconciled({name: given[name] for name in tables})
        assert users(made["query"]) == users(made["click"]) == [10]


def test_other_tables_are_left_alone():
    rows = counted("click", ("a", "x", 99)).rename_columns(
        ["query", "url", "rows", "rows_stderr", "reliable"]
    )
    given = {
        "query": counted("query", ("a", 10)),
        "click": rows,
        "keyword": counted("keyword", ("a", 99)),
        "pair": pa.table({"query": ["a"], "next_query": ["b"]}),
    }
    made = reconciled(given)
    assert all(made[name].equals(given[name]) for name in ("click", "keyword", "pair"))
    assert not tied("session", "users", {"labels": 3})
    assert not tied("click", "rows", {})
    assert tied("session", "users", {})


def test_what_cannot_be_made_consistent_is_refused():
    exact = {"query": counted("query", ("a", 10), stderr=0.0)}
    with pytest.raises(UsageError, match="without an error are exact"):
        reconciled(exact)
    with pytest.raises(UsageError, match="consistent already"):
        reconciled(reconciled({"query": counted("query", ("a", 10))}))


def tangle(rng, queries, others, parents):
    """(child, parent): others that each name up to so many queries."""
    edges = {
        (queries + c, int(q))
        for c in range(others)
        for q in rng.choice(queries, size=rng.integers(1, min(parents, queries) + 1))
    }
    child, parent = np.array(sorted(edges)).T
    return child, parent


def test_small_ones_against_a_general_solver():
    rng = np.random.default_rng(1)
    woven = 0
    for _ in range(60):
        queries, others = rng.integers(1, 5), rng.integers(2, 8)
        n = queries + others
        child, parent = tangle(rng, queries, others, 3)
        y, w = rng.integers(-3, 12, n).astype(float), rng.uniform(0.1, 3, n)
        y[queries:] += 3
        found = nearest(y, w, child, parent)
        slope = np.eye(n)[parent] - np.eye(n)[child]
        slow = minimize(
            lambda x, w=w, y=y: w @ (x - y) ** 2,
            np.zeros(n),
            jac=lambda x, w=w, y=y: 2 * w * (x - y),
            bounds=[(0, None)] * n,
            constraints={
                "type": "ineq",
                "fun": lambda x, slope=slope: slope @ x,
                "jac": lambda x, slope=slope: slope,
            },
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert np.abs(found - slow.x).max() < 1e-4
        assert w @ (found - y) ** 2 <= w @ (slow.x - y) ** 2 + 1e-9
        woven += bool((np.bincount(child[y[child] > y[parent]]) > 1).any())
    assert woven > 10  # the part that is no star was looked at


def test_a_large_one_has_multipliers_that_prove_it():
    rng = np.random.default_rng(2)
    queries, others = 1_000, 6_000
    child, parent = tangle(rng, queries, others, 3)
    true = np.concatenate([100 + 400 * rng.pareto(1.2, queries), np.zeros(others)])
    true[queries:] = np.inf
    np.minimum.at(true, child, true[parent])
    y = np.rint(true + rng.normal(0, 60, queries + others)) + 400
    w = rng.uniform(0.2, 2, queries + others)
    x = nearest(y, w, child, parent)
    assert (x[child] <= x[parent]).all()
    assert (x > 0).all()
    # Stationary: w (y - x) is a sum of multipliers >= 0 of edges that are tight, and of no other.
    tight = np.abs(x[child] - x[parent]) < 1e-9
    edge = np.arange(tight.sum())
    pull = csr_array(
        (
            np.concatenate([np.ones(len(edge)), -np.ones(len(edge))]),
            (np.concatenate([child[tight], parent[tight]]), np.tile(edge, 2)),
        ),
        shape=(len(y), len(edge)),
    )
    force = w * (y - x)
    assert (np.abs(force) > 1).sum() > 100
    found = linprog(np.zeros(len(edge)), A_eq=pull, b_eq=force, bounds=(0, None))
    assert found.status == 0
    wrong = linprog(np.zeros(len(edge)), A_eq=pull, b_eq=w * (y - x * 1.001), bounds=(0, None))
    assert wrong.status != 0


def test_queries_only_rise_and_the_others_only_fall_in_300_000_rows():
    rng = np.random.default_rng(3)
    queries, others = 60_000, 240_000
    z = 100 + 100 * rng.pareto(1.0, queries)
    a, b = rng.integers(0, queries, (2, others))
    true = np.concatenate([z, np.minimum(z[a], z[b]) * rng.uniform(0.2, 1, others)])
    y = np.rint(true + rng.normal(0, 20, len(true)))
    child = np.tile(np.arange(others) + queries, 2)
    x = nearest(y, np.ones(len(y)), child, np.concatenate([a, b]))
    assert (x[:queries] >= y[:queries]).all()
    assert (x[queries:] <= np.maximum(y[queries:], 0)).all()


@pytest.mark.parametrize(("noise", "scale"), [("gaussian", 20.0), ("geometric", 15.0)])
def test_the_weighted_error_never_grows_if_the_truth_goes_together(noise, scale):
    rng = np.random.default_rng(4)
    queries, others = 50, 200
    child, parent = tangle(rng, queries, others, 2)
    true = np.concatenate([rng.integers(50, 300, queries), np.full(others, 10**6)])
    np.minimum.at(true, child, true[parent])
    w = rng.choice([1.0, 0.25], len(true))
    better = 0
    for seed in range(20):
        y = true + draw(noise=noise, scale=scale, count=len(true), entropy=SeededEntropy(seed))
        x = nearest(y.astype(float), w, child, parent)
        before, after = w @ (y - true) ** 2, w @ (x - true) ** 2
        assert after <= before * (1 + 1e-12)
        better += after < 0.9 * before
    assert better > 10


def test_integers_go_together_and_drawn_gives_back_what_was_drawn():
    rng = np.random.default_rng(5)
    names = [f"q{i}" for i in range(30)]
    at = dict(zip(names, rng.integers(20, 60, 30), strict=True))

    def some(kind, keys):
        rows = [(*key, int(rng.integers(-5, 80))) for key in keys]
        return counted(kind, *rows, stderr=list(rng.uniform(2, 9, len(rows))))

    a, b = rng.choice(names, (2, 150))
    given = {
        "click": some("click", [(q, "x") for q in names]),
        "query": counted("query", *((q, int(n)) for q, n in at.items()), stderr=5.0),
        "pair": some("pair", sorted(set(zip(a, b, strict=True)))),
        "session": some("session", [([*rng.choice(names, 3)],) for _ in range(100)]),
        "itemset": some("itemset", [(sorted(rng.choice(names, 2)),) for _ in range(100)]),
    }
    made = reconciled(given)
    limit = dict(zip(made["query"]["query"].to_pylist(), users(made["query"]), strict=True))
    moved = 0
    for name, table in made.items():
        for row in table.to_pylist():
            mine = row.get("queries") or row.get("items") or [row["query"]]
            mine += [row["next_query"]] if name == "pair" else []
            assert 0 <= row["users"] <= min(limit[q] for q in mine)
            assert row["reliable"] == (4 * row["users_stderr"] <= row["users"])
            moved += row["users"] != row["users_noisy"]
        assert noisy_table(table).equals(given[name])
    assert moved > 100


@pytest.fixture
def bundle(write_tsv, tmp_path):
    """A bundle whose clicks exceed its queries, for each user has more queries than are counted."""
    rows = [
        {"user": f"u{i}", "time": "2026-01-01 00:00:00", "query": q, "url": u}
        for i in range(300)
        for q, u in (("weather", "example.org"), (f"rare {i}", ""), ("news", "example.com"))
    ]
    out = tmp_path / "drawn"
    murmurlog.release(
        str(write_tsv(rows)), out=out, tables=["query", "click"], epsilon=4, per_user=2,
        mechanism="threshold",
    )  # fmt: skip
    return load(out)


def test_verify_makes_the_consistent_counts_again(bundle, tmp_path):
    tables, certificate = reconciled(bundle.tables), replace(bundle.certificate, consistent=True)
    publish(tmp_path / "good", tables=tables, certificate=certificate)
    report = murmurlog.verify(tmp_path / "good")
    assert report.ok, report
    assert "recomputed" in next(c.message for c in report.checks if c.name == "consistent")
    assert load(tmp_path / "good").certificate == certificate
    card = (tmp_path / "good" / "README.md").read_text()
    assert "`users_noisy`: the number of users as drawn" in card
    assert "nearest to `users_noisy`" in card
    for name in ("croissant.json", "datapackage.json"):
        assert "users_noisy" in (tmp_path / "good" / name).read_text()
    assert "made consistent" in (tmp_path / "good" / "deployment.yaml").read_text()
    assert "consistent" not in {c.name for c in murmurlog.verify(bundle.path).checks}


def failures(root):
    return " ".join(check.message for check in murmurlog.verify(root).checks if not check.ok)


def changed(table, column, values):
    return table.set_column(
        table.column_names.index(column), table.schema.field(column), pa.array(values)
    )


def test_verify_refuses_consistent_counts_that_are_not(bundle, tmp_path):
    tables, certificate = reconciled(bundle.tables), replace(bundle.certificate, consistent=True)
    query = tables["query"]

    def published(name, table, consistent=True):
        made = replace(certificate, consistent=consistent)
        publish(tmp_path / name, tables={**tables, "query": table}, certificate=made)
        return failures(tmp_path / name)

    more = changed(query, "users", [n + 1 for n in users(query)])
    assert "not what the noisy counts of all tables give" in published("more", more)
    low = changed(query, "users_noisy", [1] * query.num_rows)
    assert "holds a count of 1; the mechanism gives" in published("low", low)
    columns = "query, users, users_low, users_high, users_stderr, reliable"
    assert f"has columns {columns}, not" in published("none", noisy_table(query))
    assert "or other types" in published("unsaid", query, consistent=False)
    # A mechanism's own rules hold for what was drawn: consistent counts may be lower than it gives.
    assert in_order(noisy_table(query)).equals(in_order(bundle.tables["query"]))


@pytest.mark.slow
def test_release_makes_counts_consistent(tmp_path, write_tsv):
    """With a table of labels beside it, which takes no part; and refused where it means nothing."""
    log = write_tsv(
        [
            {"user": f"u{n}", "time": f"2026-01-01 00:0{i}:00", "query": q, "url": "a.example"}
            for n in range(300)
            for i, q in enumerate(("weather", "maps"))
        ]
    )
    out = tmp_path / "out"
    options = {"map": "length", "mechanism": "sessions", "tables": ["query", "click", "session"]}
    murmurlog.release(str(log), out=out, epsilon=8, consistent=True, **options)
    assert murmurlog.verify(out).ok
    tables = load(out).tables
    assert "users_noisy" in tables["query"].column_names
    assert "users_noisy" not in tables["session"].column_names
    most = max(users(tables["query"]))
    assert all(n <= most for n in users(tables["click"]))
    assert export(out, to="tsv", out=tmp_path / "tsv").files
    refused = {
        "publishes none": {"set_only": True},
        "and these are exact": {"mechanism": "k-query:20", "accept_no_guarantee": True},
        "does not survive": {"mechanism": "zealous", "notion": "pdp", "users": 10},
    }
    for message, bad in refused.items():
        with pytest.raises(UsageError, match=message):
            murmurlog.release(
                str(log), out=tmp_path / "no", tables=["query"], consistent=True, **bad
            )
        assert not (tmp_path / "no").exists()

"""What a certificate states about counts follows from its own numbers, or verify fails."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import murmurlog
from murmurlog.bundle.schema import is_reliable
from murmurlog.bundle.write import publish

COLUMNS = ["query", "users", "users_low", "users_high", "users_stderr", "reliable"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Users of one to eight of twelve queries."""
    rng = np.random.default_rng(3)
    rows = [
        f"u{user}\t2026-01-01 00:00:{n:02}\tword {query}\te.org"
        for user in range(900)
        for n, query in enumerate(rng.choice(12, rng.integers(1, 9), replace=False))
    ]
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    path.write_text("\n".join(["user\ttime\tquery\turl", *rows]) + "\n")
    return path


def release_table(log, out, **options):
    keywords = {"tables": ["query"], "epsilon": 4.0, "delta": 1e-6, "users": 1000} | options
    murmurlog.release(str(log), out=out, **keywords)
    bundle = murmurlog.load(out)
    return bundle.certificate, bundle.tables[keywords["tables"][0]]


@pytest.fixture(scope="module")
def estimated(log, tmp_path_factory):
    """d2 = 2 by the owner's choice, so that much is corrected."""
    return release_table(
        log, tmp_path_factory.mktemp("b") / "out", mechanism="rounds", count_per_user=2
    )


@pytest.fixture(scope="module")
def chosen(log, tmp_path_factory):
    return release_table(log, tmp_path_factory.mktemp("b") / "out", mechanism="rounds")


@pytest.fixture(scope="module")
def bounded(log, tmp_path_factory):
    return release_table(log, tmp_path_factory.mktemp("b") / "out", mechanism="threshold")


@pytest.fixture(scope="module")
def runs(log, tmp_path_factory):
    """Sets of queries that follow one another: users of many queries count with the first few."""
    keywords = {"tables": ["itemset"], "per_user": 5, "consecutive": True, "count_per_user": 2}
    return release_table(log, tmp_path_factory.mktemp("b") / "out", mechanism="rounds", **keywords)


def faults(bundle, out, *, counting=None, columns=None):
    """What verify says about the bundle with these statements and columns instead, sealed again."""
    certificate, table = bundle
    for name, values in (columns or {}).items():
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))  # fmt: skip
    if columns:
        at = table.column_names.index("reliable")
        table = table.set_column(at, "reliable", is_reliable(table["users"], table["users_stderr"]))
        table = table.cast(bundle[1].schema)
    ((name, claim),) = certificate.tables.items()
    stated = claim.counting if counting is None else counting(dict(claim.counting))
    forged = replace(certificate, tables={name: replace(claim, counting=stated)})
    publish(out, tables={name: table}, certificate=forged)
    try:
        return " ".join(check.message for check in murmurlog.verify(out).checks if not check.ok)
    except murmurlog.BundleError as error:  # the certificate breaks its schema
        return str(error)


def test_honest_bundles_state_what_their_counts_are_about(estimated, chosen, bounded, tmp_path):
    for n, bundle in enumerate((estimated, chosen, bounded)):
        assert faults(bundle, tmp_path / str(n)) == ""
        assert bundle[1].column_names == COLUMNS
    stated = estimated[0].tables["query"].counting
    assert (stated["meaning"], stated["d2"]) == ("users in the log", 2)
    assert stated["common_error"] > 0.01
    assert len(stated["histogram"]) == 6  # 1, 2, 3, 4 to 5, 6 to 8, 9 to 12: of twelve rows
    assert dict(bounded[0].tables["query"].counting) == {"meaning": "at least"}
    assert bounded[1]["users_high"].null_count == bounded[1].num_rows
    assert estimated[1]["users_high"].null_count == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"histogram": [*c["histogram"], 0]}, "which 12 rows do not have"),
        (lambda c: c | {"histogram": c["histogram"][:-1]}, "which 12 rows do not have"),
        (lambda c: c | {"d2": 3}, "states d2 = 3, and its histogram gives 2"),
        (lambda c: c | {"common_error": 0.9 * c["common_error"]}, "smaller common error than"),
        (lambda c: c | {"common_error": 10.0}, "smaller errors than its noise and its common"),
        (lambda c: c | {"meaning": "at least"}, "an upper end for counts of bounded items"),
        (lambda c: {"meaning": c["meaning"]}, "does not state meaning, d2, common_error, histogram"),
        (lambda c: {k: v for k, v in c.items() if k != "d2"}, "does not state meaning, d2"),
        (lambda c: c | {"meaning": "all users"}, "meaning must be"),
    ],
)  # fmt: skip
def test_statements_that_do_not_follow_are_caught(estimated, tmp_path, change, message):
    assert message in faults(estimated, tmp_path / "out", counting=change)


def test_a_d2_that_the_histogram_does_not_give_is_caught(chosen, tmp_path):
    d2 = chosen[0].tables["query"].counting["d2"]
    for n, other in enumerate({2, 4, 128} - {d2}):
        messages = faults(
            chosen, tmp_path / str(n), counting=lambda c, other=other: c | {"d2": other}
        )
        assert f"states d2 = {other}, and its histogram gives {d2}" in messages

    def flatter(stated):  # nobody holds more than one item: another d2 and another correction
        return stated | {"histogram": [10**6, *[0] * (len(stated["histogram"]) - 1)]}

    assert "and its histogram gives 2" in faults(chosen, tmp_path / "h", counting=flatter)


def test_intervals_that_cannot_be_are_caught(estimated, bounded, tmp_path):
    users = np.array(estimated[1]["users"].to_pylist())
    low, high = (np.array(estimated[1][f"users_{end}"].to_pylist()) for end in ("low", "high"))
    stderr = np.array(estimated[1]["users_stderr"].to_pylist())
    cases = (
        (estimated, {"users_low": users + 1, "users_high": users + 9}, "a count outside its interval"),
        (estimated, {"users_high": users - 1}, "a count outside its interval"),
        (estimated, {"users_low": -low - 1}, "an interval that begins below 0"),
        (estimated, {"users_low": users}, "narrower than the standard errors say"),
        (estimated, {"users_high": high - np.ceil(0.1 * stderr)}, "narrower than the standard errors"),
        (estimated, {"users_stderr": stderr / 100}, "smaller errors than its noise"),
        (bounded, {"users_high": np.array(bounded[1]["users"].to_pylist())}, "states an upper end"),
        (bounded, {"users_low": np.array(bounded[1]["users"].to_pylist())}, "narrower than"),
    )  # fmt: skip
    for n, (bundle, columns, message) in enumerate(cases):
        assert message in faults(bundle, tmp_path / str(n), columns=columns), (n, message)


def test_counts_of_bounded_items_are_not_sold_as_those_of_the_log(bounded, tmp_path):
    more = {"d2": 2, "common_error": 0.0, "histogram": []}
    messages = faults(bounded, tmp_path / "a", counting=lambda c: c | more)
    assert "states meaning, d2, common_error, histogram of counts that threshold(" in messages
    high = np.array(bounded[1]["users"].to_pylist()) + 1000
    sold = {"counting": lambda c: {"meaning": "users in the log"}, "columns": {"users_high": high}}
    assert "states meaning of counts that threshold(" in faults(bounded, tmp_path / "b", **sold)


def test_counts_of_runs_are_at_least_those_of_the_log_and_nothing_else_is_accepted(runs, tmp_path):
    certificate, table = runs
    stated = certificate.tables["itemset"].counting
    assert (stated["meaning"], stated["d2"]) == ("at least", 2)
    assert table.num_rows > 5
    assert table["users_high"].null_count == table.num_rows
    assert faults(runs, tmp_path / "honest") == ""
    # Each user has 1 to 8 of 12 queries, 4.5 on average; of these the first three count.
    single = [row for row in table.to_pylist() if len(row["items"]) == 1]
    assert all(row["users_low"] < 900 * 4.5 / 12 for row in single)
    high = np.array(table["users"].to_pylist()) + 1000
    sold = {
        "counting": lambda c: c | {"meaning": "users in the log"},
        "columns": {"users_high": high},
    }
    assert "which is 'at least'" in faults(runs, tmp_path / "sold", **sold)
    bare = faults(runs, tmp_path / "bare", counting=lambda c: {"meaning": "at least"})
    assert "does not state meaning, d2, common_error, histogram" in bare


def test_estimates_are_not_understated_as_bounded_counts(estimated, tmp_path):
    none = {"users_high": [None] * estimated[1].num_rows}
    less = {"counting": lambda c: c | {"meaning": "at least"}, "columns": none}
    assert "which is 'users in the log'" in faults(estimated, tmp_path / "out", **less)


def test_runs_need_the_order_of_queries(log, tmp_path):
    with pytest.raises(murmurlog.UsageError, match="--consecutive needs the order"):
        release_table(log, tmp_path / "out", tables=["itemset"], consecutive=True, bound="random")
    assert not (tmp_path / "out").exists()

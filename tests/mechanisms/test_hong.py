"""The mechanism `hong` end to end: refused unless asked for, literal, and visibly not private."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run
from hypothesis import given
from hypothesis import strategies as st

import murmurlog
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Hong, View, parse
from murmurlog.mechanisms.hong.mechanism import DIVERSITIES, OBJECTIVES
from murmurlog.privacy.sampler import SeededEntropy

MURMURLOG = Path(sys.executable).with_name("murmurlog")
LN2 = math.log(2)
PAPER = {"mechanism": "hong", "tables": ["log"], "epsilon": LN2, "delta": 0.5}
FLAGS = ("--mechanism", "hong", "--tables", "log", "--epsilon", "ln(2)", "--delta", "0.5")
TRUE = {
    "lambda",
    "output size reached",
    "no output is larger than n min(epsilon, -ln(1-delta))",
    "largest delta_k given the totals",
    "statement",
}
OWN = {
    "output": set(),
    "frequent": {
        "output size asked for",
        "sum of support distances",
        "sum of support distances, least by the linear program",
    },
    "diverse": {
        "kept by the paper's heuristic",
        "kept by ours",
        "most there can be, exactly",
        "most there can be, by the linear program",
    },
    "breach": {
        "output size asked for",
        "no output of this size has a smaller largest delta_k than",
    },
}


def click(user, query, url="u.example"):
    return {"user": user, "time": "2026-01-01 00:00:00", "query": query, "url": url}


def common_clicks(n):
    """n users who each clicked the same thing once; ids that look like pseudonyms."""
    return [click(f"u{k}", "q") for k in range(1, n + 1)]


@pytest.fixture
def small_log(write_tsv):
    """Twelve users, five pairs, one of them of a single user."""
    rows = common_clicks(12)
    rows += [click(f"u{k}", "r") for k in range(1, 7) for _ in range(k % 2 + 1)]
    rows += [click(f"u{k}", "s", "v.example") for k in (3, 9, 10)]
    rows += [click(f"u{k}", "s", "w.example") for k in (4, 8, 11, 12)]
    return write_tsv([*rows, click("u5", "mine alone")])


def release_log(path, out, **options):
    outcome = murmurlog.release(
        str(path), out=out, accept_no_guarantee=True, **{**PAPER, **options}
    )
    return outcome, pq.read_table(out / "data" / "log.parquet")


# --- refused --------------------------------------------------------------------------------------


def test_it_is_refused_unless_the_owner_says_so(small_log, tmp_path):
    with pytest.raises(Refused, match=r"hong has no privacy guarantee: .* --accept-no-guarantee"):
        murmurlog.release(str(small_log), out=tmp_path / "b", **PAPER)
    done = run("release", small_log, *FLAGS, "--out", tmp_path / "b")
    assert done.returncode == 3
    assert "refused (3): hong has no privacy guarantee" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [small_log.name]


def test_a_ledger_does_not_book_it(small_log, tmp_path):
    ledger = tmp_path / "l.db"
    capped = run("ledger", "cap", "web", "--epsilon", 5, "--delta", 0.9, "--ledger", ledger)
    assert capped.returncode == 0
    with pytest.raises(Refused, match="no cost that a ledger could book: leave --ledger out"):
        release_log(small_log, tmp_path / "b", ledger=ledger, source_name="web")
    flags = (*FLAGS, "--accept-no-guarantee", "--ledger", ledger, "--source", "web")
    done = run("release", small_log, *flags, "--out", tmp_path / "b")
    assert done.returncode == 3
    assert not (tmp_path / "b").exists()
    output = run("ledger", "show", "--ledger", ledger, "--json")
    assert json.loads(output.stdout)["entries"] == []


@pytest.mark.parametrize("objective", ["frequent", "breach"])
def test_a_size_above_lambda_is_refused_with_lambda(small_log, tmp_path, objective):
    flags = (*FLAGS, "--accept-no-guarantee", "--objective", objective, "--output-size", 100)
    done = run("release", small_log, *flags, "--out", tmp_path / "b")
    assert done.returncode == 2
    lam = release_log(small_log, tmp_path / "most")[0].notes["log"]["lambda"]
    assert "usage (2): --output-size 100 is infeasible: within e^epsilon = 2" in done.stderr
    assert f"allows at most lambda = {lam:.6g} clicks. Use a size in (0, {lam:.6g}]" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_log_without_urls_cannot_be_used(write_tsv, tmp_path):
    path = write_tsv(common_clicks(3), columns=("user", "query"))
    with pytest.raises(InputError, match="no column of clicked urls"):
        release_log(path, tmp_path / "b")
    assert (
        run("release", path, *FLAGS, "--accept-no-guarantee", "--out", tmp_path / "b").returncode
        == 4
    )
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objective": "best"}, "--objective must be one of output, frequent, diverse, breach"),
        ({"diversity": "urls"}, "--diversity must be pairs or queries, not 'urls'"),
        ({"support": 0.0}, r"--support is a share of the clicks in \(0, 1\], not 0.0"),
        ({"objective": "breach", "output_size": 0}, "--output-size must be at least 1, not 0"),
        ({"output_size": 5}, "--output-size goes with --objective frequent or breach; output has"),
        ({"noise": "geometric"}, "hong draws users, not noise: leave --noise out"),
    ],
)
def test_what_cannot_be_is_refused_in_words(small_log, tmp_path, wrong, message):
    with pytest.raises(UsageError, match=message):
        release_log(small_log, tmp_path / "b", **wrong)
    assert not (tmp_path / "b").exists()


# --- what comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_objective_gives_rows_of_the_log_under_fresh_names(small_log, tmp_path, objective):
    outcome, table = release_log(small_log, tmp_path / "b", objective=objective)
    assert table.schema.equals(
        pa.schema(
            [("user", pa.string()), ("query", pa.string()), ("url", pa.string())]
            + [("count", pa.int64())]
        )
    )
    rows = table.to_pylist()
    assert rows
    names = {row["user"] for row in rows}
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in names)
    assert not names & {f"u{k}" for k in range(1, 13)}
    pairs = {(row["query"], row["url"]) for row in rows}
    ours = {("q", "u.example"), ("r", "u.example"), ("s", "v.example"), ("s", "w.example")}
    assert pairs <= ours  # the pair of one user is never published
    notes = outcome.notes["log"]
    assert set(notes) == TRUE | OWN[objective]
    size = sum(row["count"] for row in rows)
    assert notes["output size reached"] == size <= notes["lambda"]
    assert notes["no output is larger than n min(epsilon, -ln(1-delta))"] == math.floor(12 * LN2)
    assert 0 < notes["largest delta_k given the totals"] <= 0.5 + 1e-9
    if "output size asked for" in notes:
        assert size == notes["output size asked for"] == math.floor(notes["lambda"] / 2)
    if objective == "diverse":
        assert len(pairs) == notes["kept by ours"] == notes["most there can be, exactly"]
        assert notes["kept by the paper's heuristic"] <= notes["kept by ours"]


def test_diversity_of_queries_keeps_no_fewer_queries(small_log, tmp_path):
    by_pairs, by_queries = (
        release_log(small_log, tmp_path / of, objective="diverse", diversity=of)[1]
        for of in DIVERSITIES
    )
    assert len(set(by_pairs["query"].to_pylist())) <= len(set(by_queries["query"].to_pylist()))


def test_the_command_prints_what_is_true_and_verify_fails(small_log, tmp_path):
    flags = (*FLAGS, "--accept-no-guarantee", "--objective", "breach", "--output-size", 2)
    done = run("release", small_log, *flags, "--out", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    assert "NO formal privacy guarantee" in done.stderr
    for line in (
        "log: lambda: ",
        "log: output size asked for: 2\n",
        "log: output size reached: 2\n",
    ):
        assert line in done.stderr
    assert "log: largest delta_k given the totals: " in done.stderr
    assert "log: statement: not differentially private end to end; given" in done.stderr
    verified = run("verify", tmp_path / "b")
    assert verified.returncode == 1
    assert "FAILED guarantee: this bundle has NO privacy guarantee" in verified.stdout


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("alone", ["one user", "nobody shares a pair"])
def test_lambda_zero_gives_an_empty_valid_bundle(write_tsv, tmp_path, objective, alone):
    clicks = [click("a", "x"), click("a", "y")]
    path = write_tsv(clicks if alone == "one user" else [*clicks, click("b", "z")])
    outcome, table = release_log(path, tmp_path / "b", objective=objective)
    assert table.num_rows == 0
    assert outcome.notes["log"]["lambda"] == outcome.notes["log"]["output size reached"] == 0
    assert outcome.notes["log"]["largest delta_k given the totals"] == 0
    checks = {check.name: check.ok for check in murmurlog.verify(tmp_path / "b").checks}
    assert [name for name, ok in checks.items() if not ok] == ["guarantee"]


def test_names_are_drawn_anew_each_time_and_from_the_entropy_given(small_log, tmp_path):
    seeded = [
        release_log(small_log, tmp_path / str(n), entropy=SeededEntropy(seed))[1]
        for n, seed in enumerate((1, 1, 2))
    ]
    assert seeded[0].equals(seeded[1])
    assert not set(seeded[0]["user"].to_pylist()) & set(seeded[2]["user"].to_pylist())


def test_the_order_of_the_log_does_not_matter(tmp_path):
    table = invent(rows=20_000, seed=3, like="aol").table
    mixed = table.take(np.random.default_rng(5).permutation(table.num_rows))
    outputs = []
    for n, rows in enumerate((table, mixed)):
        pq.write_table(rows, tmp_path / f"{n}.parquet")
        path, seed = tmp_path / f"{n}.parquet", SeededEntropy(1)
        outputs.append(release_log(path, tmp_path / str(n), objective="frequent", entropy=seed)[1])
    assert outputs[0].equals(outputs[1])
    assert outputs[0].num_rows > 10


def test_what_is_gathered_follows_from_the_clicks_whatever_the_keys_and_partitions_are(tmp_path):
    write(invent(rows=20_000, seed=3, like="aol"), tmp_path / "log.parquet")
    hong, clicks = Hong(epsilon=LN2, delta=0.5), View(kind="log")
    gathered = []
    for seed in (1, 2):
        with connect() as engine:
            source, entropy = find(str(tmp_path / "log.parquet")), SeededEntropy(seed)
            log = read(source, engine=engine, entropy=entropy)
            gathered.append(hong.gather(log, clicks, entropy=entropy))
    first, second = gathered
    assert first.histories.users > 100
    assert first.pairs.equals(second.pairs)
    assert (first.histories.counts != second.histories.counts).nnz == 0


# --- why it has no guarantee ----------------------------------------------------------------------


def test_neighbouring_logs_give_outputs_of_different_size_for_sure(write_tsv, tmp_path):
    sizes = {3: set(), 4: set()}
    for n, outcomes in sizes.items():
        path = write_tsv(common_clicks(n), name=f"{n}.tsv")
        for turn in range(8):  # the draws differ, the size does not
            table = release_log(path, tmp_path / f"{n}-{turn}")[1]
            outcomes.add(sum(table["count"].to_pylist()))
    # Disjoint sets of outputs: delta is 1 at every epsilon.
    assert sizes == {3: {1}, 4: {2}}
    assert Hong(epsilon=LN2, delta=0.5).guarantee().notion == "none"


# --- its text -------------------------------------------------------------------------------------


@given(
    st.sampled_from(OBJECTIVES),
    st.floats(1e-3, 20),
    st.floats(1e-9, 0.9),
    st.floats(1e-6, 1),
    st.none() | st.integers(1, 10**9),
    st.sampled_from(DIVERSITIES),
)
def test_its_text_is_its_name(objective, epsilon, delta, support, size, diversity):
    m = Hong(
        objective=objective,
        epsilon=epsilon,
        delta=delta,
        support=support,
        output_size=size if objective in ("frequent", "breach") else None,
        diversity=diversity,
    )
    assert parse(str(m)) == m


def test_an_unknown_letter_is_named():
    with pytest.raises(UsageError, match="hong has no parameter tau"):
        parse("hong(epsilon=1.0, delta=0.5, tau=3)")

"""Public parameters at their extremes, and budgets beside own parameters: refused before anything is booked."""

import math
import os
import random
import stat
from collections import Counter
from contextlib import suppress

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from command import run
from parameters import Walk, bases

from murmurlog import plan, release
from murmurlog.bundle.options import options_of
from murmurlog.bundle.scratch import make_folders, settle
from murmurlog.errors import MurmurlogError, Refused, UsageError
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.running import Running
from murmurlog.mechanisms import declared_options, parse
from murmurlog.privacy.thresholds import delta_of_threshold
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.plan import plan_tables
from murmurlog.publishing.request import Booking, Budget, Content, Statements

SETTINGS = [
    ("rounds --set", ("set.T", "1e19_1e19_1e19"), "refused"),
    ("rounds --set", ("set.T", "-1_9e6_9e6"), "refused"),
    ("rounds --set", ("set.reach", "1e300"), "refused"),
    ("threshold query+click", ("of_cap", 1e-300), "refused"),
    ("zealous-keywords", ("fakes", 1e-300), "refused"),
    ("zealous-keywords", ("fakes", 1), "released"),
    ("k-session:2", ("gap", 1), "released"),
    ("synthetic log", ("per_user", 1 << 31), "refused"),
    ("synthetic --set", ("set.b_sizes", "1e12"), "refused"),
    ("rounds --set", ("set.d", "1000"), "released"),
    ("rounds with a pool", ("fakes", 5e-324), "refused"),
    ("threshold query+click", ("delta", 5e-324), "refused"),
    ("threshold query+click", ("delta", 0.5), "released"),
    ("threshold query+click", ("users", 1 << 63), "refused"),
    ("threshold query+click", ("users", math.nan), "refused"),
    ("threshold query+click", ("per_user", 2.5), "refused"),
    ("threshold query+click", ("per_user", True), "refused"),
    ("threshold query+click", ("epsilon", ""), "refused"),
    ("threshold query+click", ("gap", 10**400), "refused"),
    ("general", ("tables", 0), "refused"),
    ("general", ("unprotected", "text"), "refused"),
    ("general", ("deny", "\x00"), "refused"),
    ("general", ("shares", {"query": 0.999999, "click": 1e-6}), "released"),
    ("pool query", ("epsilon", 5e-324), "refused"),
]


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    return Walk(tmp_path_factory.mktemp("walk"))


@pytest.fixture(scope="module")
def releases(walk):
    made = {}
    for base in bases(walk.folder):
        made.setdefault(base.name, base)
    return made


@pytest.mark.parametrize(("name", "change", "expected"), SETTINGS)
def test_an_extreme_parameter_works_or_is_refused_before_the_booking(
    walk, releases, name, change, expected
):
    assert walk.run(releases[name], change)[0] == expected


def test_some_settings_of_every_mechanism_break_no_promise(walk):
    """`make fuzz` does all of them."""
    choice, outcomes = random.Random(5), Counter()
    for base in bases(walk.folder):
        outcome, ended = walk.run(base, choice.choice(list(base.settings())))
        assert outcome != "violation", (base.name, ended)
        outcomes[outcome] += 1
    assert min(outcomes.values()) > 5


def test_the_walk_sees_a_booking_without_a_bundle(walk, releases, monkeypatch):
    def fail(*_, **__):
        raise UsageError("seen too late")

    monkeypatch.setattr("murmurlog.mechanisms.threshold.draw", fail)
    outcome, ended = walk.run(releases["threshold query+click"])
    assert outcome == "violation"
    assert ended.startswith("booked (reserved) and refused")


def test_pools_without_thresholds_are_refused_before_the_booking(walk, releases):
    base = releases["rounds --set"]
    outcome, ended = walk.run(base, ("set.N", "3"), ("set.TP", "9000000_9000000_9000000"))
    assert (outcome, "the pools are not those" in ended) == ("refused", True)


def test_numbers_of_numpy_are_numbers():
    budget = Budget(epsilon=np.float32(0.5), users=np.int64(7), shares={"query": np.float64(1)})
    assert (type(budget.epsilon), type(budget.users)) == (float, int)
    with pytest.raises(UsageError, match="--users must be a whole number up to"):
        Budget(users=np.float64(7))
    with pytest.raises(UsageError, match="--epsilon must be a finite number, not"):
        Budget(epsilon=np.float64("nan"))


# --- a budget beside own parameters ----------------------------------------------------------------

WEAK = {"rounds": "d=5,s=3,T=20e6", "threshold": "d=5,b=5,T=12", "korolova": "d=5,b=5,T=12"}


def letters_of(mechanism):
    return dict(part.split("=") for part in WEAK[mechanism].split(","))


@pytest.mark.parametrize("mechanism", WEAK)
def test_a_delta_beside_own_parameters_is_kept_or_the_release_refused(walk, tmp_path, mechanism):
    """It was ignored: asked for 1e-6, threshold was released at 0.27."""
    asked = {"mechanism": mechanism, "letters": letters_of(mechanism), "tables": ["query"]}
    Ledger(tmp_path / "l.db").cap("web", epsilon=20, delta=0.9, pure=10)
    asked |= {"ledger": tmp_path / "l.db", "source_name": "web", "epsilon": 1.0}
    with pytest.raises(Refused, match=r"have delta \S+ per user, more than --delta 1e-06"):
        release(walk.log, out=tmp_path / "b", delta=1e-6, **asked)
    assert Ledger(tmp_path / "l.db").entries() == []
    assert release(walk.log, out=tmp_path / "b", **asked).guarantee.delta > 1e-6
    asked |= {"ledger": None, "source_name": None}
    assert release(walk.log, out=tmp_path / "c", delta=0.5, **asked).guarantee.epsilon == 1.0


def test_a_delta_is_kept_on_the_command_line_and_in_settings(walk, tmp_path):
    words = ["release", str(walk.log), "--mechanism", "rounds", "--set", WEAK["rounds"]]
    words += ["--tables", "query", "--epsilon", "1", "--out", "b"]
    assert run(*words, "--delta", "1e-6", cwd=tmp_path).returncode == 3
    (tmp_path / "murmurlog.toml").write_text("[release]\ndelta = 1e-6\n")
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert "more than --delta 1e-06" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_plan_keeps_a_delta_and_an_epsilon_that_are_given():
    for mechanism in WEAK:
        asked = {"mechanism": mechanism, "letters": letters_of(mechanism), "epsilon": 1.0}
        with pytest.raises(Refused, match="more than --delta 1e-06"):
            plan(**asked, delta=1e-6)
        assert plan(**asked).guarantee.delta > 1e-6
    with pytest.raises(Refused, match=r"costs epsilon 1 per user, more than 0\.5"):
        plan(mechanism="korolova", letters=letters_of("korolova"), epsilon=0.5)


def test_the_given_delta_is_of_all_tables_together(walk, tmp_path):
    asked = {"mechanism": "threshold", "letters": letters_of("threshold"), "epsilon": 2.0}
    _, total = plan_tables(["query", "click"], **asked)
    tables = {"tables": ["query", "click"], "dry_run": True, "out": tmp_path / "b"}
    with pytest.raises(Refused, match="more than --delta"):
        release(walk.log, **asked, **tables, delta=0.9 * total.delta)
    shares = {"query": 0.6, "click": 0.4}
    made = release(walk.log, **asked, **tables, shares=shares, delta=0.6)
    assert made.guarantee.epsilon == pytest.approx(2.0)
    assert made.guarantee.delta <= 0.6


# --- small deltas ----------------------------------------------------------------------------------


def hockey_stick(epsilon, copies, b):
    a = mpmath.exp(-1 / b)
    return mpmath.fsum(
        mpmath.binomial(copies, i) * a**i / (1 + a) ** copies
        * (1 - mpmath.exp(epsilon - mpmath.mpf(copies - 2 * i) / b))
        for i in range(copies + 1) if mpmath.mpf(copies - 2 * i) / b > epsilon
    ) if copies else max(mpmath.mpf(0), 1 - mpmath.exp(epsilon))  # fmt: skip


def true_delta(epsilon, d, scale, T, neighbours):
    """By the theorem's formula, with 60 digits."""
    e, b = mpmath.mpf(epsilon), mpmath.mpf(scale)
    a = mpmath.exp(-1 / b)
    q = 1 - a ** (T - 1) / (1 + a)
    if neighbours == "add-remove":
        pairs = [(k, s, d - k) for k in range(d + 1) for s in (-k, k)]
        return max(
            (1 - q**k if s <= 0 else 0)
            + (q**k if s <= 0 else 1) * hockey_stick(e + s * mpmath.log(q), n, b)
            for k, s, n in pairs
        )
    return max(
        1 - q**k + q**k * hockey_stick(e + (other - k) * mpmath.log(q), 2 * d - k - other, b)
        for k in range(d + 1)
        for other in range(d + 1)
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_stated_deltas_of_geometric_noise_are_right_however_small(neighbours):
    """Just below a scale of d/epsilon a difference of two tails lost up to 2.8 % of them."""
    choice = random.Random(3)
    aimed = [(2, 1604.0925980229358, 54413, 0.001246810815318763)]
    aimed += [(1, 171.19742730124787, 5214, 0.005841209273724247)]
    sides = 1 if neighbours == "add-remove" else 2
    for _ in range(150):
        d, scale = choice.choice([1, 2, 3, 5, 8]), 10 ** choice.uniform(-1, 6)
        near = 1 - 10 ** choice.uniform(-15.5, -0.5)
        aimed.append(
            (d, scale, max(2, int(scale * choice.uniform(5, 40))), sides * d / scale * near)
        )
    with mpmath.workdps(60):
        for d, scale, T, epsilon in aimed:
            stated = delta_of_threshold(
                noise="geometric", epsilon=epsilon, d=d, scale=scale, threshold=T, neighbours=neighbours
            )  # fmt: skip
            true = true_delta(epsilon, d, scale, T, neighbours)
            assert abs(mpmath.mpf(stated) - true) <= 1e-12 * true, (d, scale, T, epsilon)


def test_more_items_than_can_be_computed_are_refused_at_once(walk, tmp_path):
    """A bound of 100,000 items asked for 74 GB."""
    with pytest.raises(UsageError, match="at most 3000 items a user, not 100000"):
        release(
            walk.log, out=tmp_path / "b", mechanism="threshold", tables=["query"], per_user=100_000,
            neighbours="replace",
        )  # fmt: skip


# --- who may write what was made -------------------------------------------------------------------


@pytest.mark.parametrize(("mask", "file", "folder"), [(0, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_nobody_else_can_write_what_a_series_and_settings_are_made_of(tmp_path, mask, file, folder):
    def mode(path):
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(mask)
    try:
        make_folders(tmp_path / "a" / "bundles")
        (tmp_path / "new").write_text("x")
        settle(tmp_path / "new", tmp_path / "settings.toml")
        words = ["series", "init", "s.toml", "--logs", "logs/{period}.csv", "--source", "pop"]
        words += ["--epsilon", "3", "--delta", "1e-5", "--first", "2026-01", "--reason", "x"]
        assert run(*words, cwd=tmp_path).returncode == 0
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("a", "a/bundles")] == [folder] * 2
    names = ("settings.toml", "s.toml")
    assert [mode(tmp_path / name) for name in names] == [file] * 2
    assert Ledger(tmp_path / "budget.db").path.stat().st_mode & 0o077 == 0


def test_thresholds_of_rounds_fit_into_64_bits():
    with pytest.raises(UsageError, match="T must lie between"):
        parse("rounds(d=5, s=3, T=1e19)")
    with pytest.raises(UsageError, match="TP must lie between"):
        parse("rounds(d=5, s=3, T=20e6, N=10, TP=1e19)")


GROUPS = (Budget, Content, ReadOptions, Booking, Running, Statements)
KEYWORDS = sorted({option.name for group in GROUPS for option in options_of(group)} | {*declared_options(), "out"})  # fmt: skip


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_takes_a_value_or_says_what_it_wants(keyword, tmp_path, monkeypatch):
    """What is wrong with it is never an error from the inside."""
    monkeypatch.chdir(tmp_path)
    log = pa.table(
        {"user": ["u", "v"], "time": [1, 2], "query": ["q", "q"], "url": ["a.org", None]}
    )
    for value in (
        "text",
        "user=uid,query=q",
        ["a", "b"],
        {"a": "b"},
        {"query": 1},
        None,
        3,
        -1.5,
        float("nan"),
    ):
        with suppress(MurmurlogError):
            release(log, **{"out": "bundle", keyword: value}, dry_run=True)

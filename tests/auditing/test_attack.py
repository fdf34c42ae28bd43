"""The audit: its bounds are right, it finds nothing wrong with the real road, and catches the twins."""

import hashlib
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from command import run
from scipy.stats import binom
from twins import TWINS

from murmurlog.auditing import attack as auditing
from murmurlog.auditing.attack import audit
from murmurlog.auditing.epsilon_bounds import (
    MOST_EPSILON,
    Counts,
    fit_p_value,
    least_by_guesses,
    loss,
    lower_bound,
    p_value,
    upper_bound,
)
from murmurlog.auditing.figure import Bar, intervals
from murmurlog.auditing.measurement import Fault, Measurement, measure
from murmurlog.auditing.neighbouring_logs import (
    FIRST,
    LETTERS,
    PAIR_MAKERS,
    SECRET,
    Known,
    Pair,
    Sizes,
    exchange,
    names_of,
    place_of,
    secrets_of,
    without_secret,
    write_log,
)
from murmurlog.auditing.observer import Observation, best_events, make_guesses, scores
from murmurlog.auditing.probes import (
    MOST_CANDIDATES,
    ExactCounts,
    check_counts,
    check_noise,
    check_order,
    check_shares,
    excess_changes,
    facts,
    find_leaks,
    find_repeated_noise,
    mass,
    pass_p_value,
)
from murmurlog.auditing.result import Audit
from murmurlog.auditing.settings import _sizes, claimed_setting, standard_settings
from murmurlog.cli.release_section import audited
from murmurlog.errors import UsageError
from murmurlog.mechanisms import Mechanism, Rounds, parse
from murmurlog.privacy import Guarantee
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.sampler import SeededEntropy, draw

ROOT = Path(__file__).parents[2]

SURE = 1 - 1e-9  # so that a test of real noise fails once in a billion times
FRESH = iter(range(1000))
SIZES = Sizes(d=2, near=3, sure=9, crowd=12)


# --- evidence --------------------------------------------------------------------------------------


def test_the_bounds_of_clopper_and_pearson_are_wrong_no_more_often_than_they_say():
    n, p, alpha = 40, 0.3, 0.05
    hits = np.arange(n + 1)
    chances = binom.pmf(hits, n, p)
    low = np.array([lower_bound(int(k), n, alpha) for k in hits])
    high = np.array([upper_bound(int(k), n, alpha) for k in hits])
    assert alpha / 4 < chances[low > p].sum() <= alpha
    assert alpha / 4 < chances[high < p].sum() <= alpha


def test_a_bound_on_epsilon_is_that_of_the_two_chances():
    counts = Counts(hits=900, trials=1000, hits_of_neighbour=100, trials_of_neighbour=1000)
    assert counts.near(delta=0) == pytest.approx(math.log(9))
    assert 1.9 < counts.least(delta=0, alpha=0.01) < math.log(9) < counts.most(delta=0, alpha=0.01)
    assert counts.least(delta=0.9, alpha=0.01) == 0
    assert loss(0.5, 0.0, 0.1) == MOST_EPSILON
    assert loss(0.1, 0.2, 0.0) == 0


def test_guesses_of_one_run_refute_what_they_must_and_no_more():
    # Randomised response of epsilon 1 is right with 0.731: 10,000 guesses say nearly that.
    right = round(10_000 / (1 + math.exp(-1)))
    found = least_by_guesses(canaries=10_000, guesses=10_000, right=right, delta=0, alpha=0.01)
    assert 0.9 < found < 1
    assert p_value(canaries=20, guesses=20, right=20, epsilon=0, delta=0) == pytest.approx(2**-20)
    some = {"canaries": 100, "guesses": 100, "right": 70, "epsilon": 0.5}
    assert p_value(**some, delta=1e-3) > p_value(**some, delta=0)
    assert least_by_guesses(canaries=50, guesses=0, right=0, delta=0, alpha=0.01) == 0


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_the_law_of_noise_is_told_from_a_wider_and_a_narrower_one(noise):
    k = np.arange(-40, 41)
    rng = np.random.default_rng(1)
    values = rng.choice(k, 20_000, p=mass(noise, 2.0, k) / mass(noise, 2.0, k).sum())
    assert fit_p_value(values, mass(noise, 2.0, k), -40) > 1e-6
    for scale in (1.8, 2.2):
        assert fit_p_value(values, mass(noise, scale, k), -40) < 1e-9
    p, what = check_noise(
        {"noise": noise, "scale": 2.0}, (values + 0.25).tolist(), [0] * len(values)
    )
    assert p == 0
    assert "whole numbers" in what


def test_the_p_value_of_a_fit_is_exact():
    """Small no more often than it says, and a single draw that cannot be is enough."""
    k, rng = np.arange(-24, 25), np.random.default_rng(4)
    chances = mass("geometric", 1.0, k)
    draws = rng.choice(k, (2000, 400), p=chances / chances.sum())
    p = np.array([fit_p_value(each, chances, -24) for each in draws])
    assert 0 < (p <= 0.05).mean() <= 0.05
    assert fit_p_value(np.append(draws[0], 24), chances, -24) < 1e-5
    assert fit_p_value(np.append(draws[0], 99), chances, -24) < 1e-5


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("threshold(noise=geometric, d=1, scale=1.5, T=20)", 18),
        ("threshold(noise=gaussian, d=1, scale=3.0, T=20)", 18),
        ("korolova(d=1, b=1.5, T=20, count=users)", 18),
        ("rounds(d=1, s=3.55_2.88_2.34_1.9, own=120_182_277_420, past=108_164_249, "
         "T=1379801017_2216153990_3191528649_3080918227, C=3.0, reach=1.3, focus=0.3)", 4),
    ],
)  # fmt: skip
def test_what_passes_is_told_from_less_noise(text, users):
    """Items of known numbers of users through the mechanism itself, with its noise and with half."""
    mechanism, trials, entropy = parse(text), 20_000, SeededEntropy(5)

    def shown(part):
        def drawn(scale, count):
            noise = mechanism.parameters()["noise"]
            return draw(noise=noise, scale=scale * part, count=count, entropy=entropy)

        if not isinstance(mechanism, Rounds):
            stated = mechanism.parameters()
            return int((users + drawn(stated["scale"], trials) >= stated["threshold"]).sum())
        passed, remembered = 0, np.zeros(trials, np.int64)
        for k, scale in enumerate(mechanism.schedule.scales):
            measured = users * GRID + drawn(scale * GRID, len(remembered))
            found = mechanism.judged(k, measured, remembered)
            passed, remembered = passed + int(found.passed.sum()), found.remembered
        return passed

    for part, least, most in ((1.0, 1e-6, 1), (0.5, 0, 1e-12)):
        p = pass_p_value(mechanism, users=users, shown=shown(part), trials=trials)
        assert least <= p <= most
    assert pass_p_value(parse("pool(d=1, b=1.0, N=9, T=5)"), users=5, shown=1, trials=2) is None


def test_what_falls_below_a_first_threshold_never_passes():
    zealous = parse("zealous(m=1, lam=1.0, tau=5, T=6)")
    assert pass_p_value(zealous, users=4, shown=0, trials=500) == 1
    assert pass_p_value(zealous, users=4, shown=20, trials=500) < 1e-9


TABLES = {
    "click": ("threshold(noise=gaussian, d=1, scale=1.5, T=20)", "clicks", "a click of many",
              "a click at the threshold"),
    "session": ("sessions(l_s=1, l_q=3, subsequences=all, noise=geometric, scale=2.0, T=20)",
                "sessions", "a session of many", "a session at the threshold"),
    "keyword": ("zealous(m=2, lam=2.0, T=20)", "queries", "items of many",
                "items at the threshold"),
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_noise_of_any_table_is_told_from_half_of_it(table):
    text, kind, many, near = TABLES[table]
    stated = {table: parse(text)}
    parameters = stated[table].parameters()
    made = {pair.name: pair for pair in PAIR_MAKERS[kind](_sizes(list(stated.values())))}
    worlds, entropy = 4000, SeededEntropy(6)
    side = np.arange(worlds) % 2
    (sure,) = (k for k in made[many].counts if k.table == table)
    (open_,) = (k for k in made[near].near if k.table == table)
    for part in (1.0, 0.5):
        scale = parameters["scale"] * part
        noise = [draw(noise=parameters["noise"], scale=scale, count=worlds, entropy=entropy)
                 for _ in range(2)]  # fmt: skip
        counts = np.asarray(sure.users)[side] + noise[0]
        shown = np.asarray(open_.users)[side] + noise[1] >= parameters["threshold"]
        seen = [
            Observation(worlds=worlds, numbers={((table, sure.item), sure.column): counts.astype(float)}),
            Observation(worlds=worlds,
                 numbers={((table, open_.item), "rows"): np.where(shown, 1.0, np.nan)}),
        ]  # fmt: skip
        asked = (stated, [made[many], made[near]], seen, [side, side])
        odd = check_counts(*asked, alpha=1e-6) + check_shares(*asked, alpha=1e-6)
        assert len(odd) == (0 if part == 1 else 3)  # counts, and shares on both sides
        assert part == 1 or odd[0].startswith(f"{table}: the noise of 4000 counts")


def test_counts_are_held_to_no_law_that_they_need_not_keep():
    """Sessions fall away with queries that are not published; synthetic logs have no such counts."""
    item = Known("session", "ours0 ours1", (40, 41), queries=2)
    pair = Pair(name="a", counts=(item,), near=(item._replace(queries=None),))
    odd = Observation(worlds=400, numbers={(("session", item.item), c): np.full(400, 40.0)
                                    for c in ("users", "rows")})  # fmt: skip
    session = parse("sessions(l_s=1, l_q=3, subsequences=all, noise=geometric, scale=2.0, T=40)")

    def found(mechanisms):
        asked = (mechanisms, [pair], [odd], [np.arange(400) % 2])
        return [len(f(*asked, alpha=1e-6)) for f in (check_counts, check_shares)]

    assert found({"session": session}) == [1, 2]
    for d, counted in ((1, 0), (2, 1)):
        query = parse(f"threshold(noise=geometric, d={d}, scale=1.0, T=20)")
        assert found({"session": session, "query": query}) == [counted, 0]
    assert found({"query": session}) == [0, 0]
    paths = parse("label-paths(l_s=1, l_q=3, subsequences=all, b=2.0, L=3, T=4)")
    assert found({"session": paths}) == [0, 0]


# --- what one user moves ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "after", "by_one", "allowed"),
    [
        (Pair(name="p"), {"x": 8}, True, False),
        (Pair(name="p"), {"x": 8}, False, True),  # three rows of one item
        (Pair(name="p"), {"x": 6, "y": 1, "z": 1}, True, True),
        (Pair(name="p"), {"x": 6, "y": 1, "z": 1, "u": 1}, True, False),
        (Pair(name="p", linked=3), {"x": 8}, True, True),
        (Pair(name="p", linked=3), {"x": 9}, True, False),
        # Who comes instead may have the same item, which then does not move at all.
        (Pair(name="p", other=PAIR_MAKERS["exchanges"](SIZES)[0].other), {"x": 7}, True, False),
        (
            Pair(name="p", other=PAIR_MAKERS["exchanges"](SIZES)[0].other),
            {"x": 4, "y": 1},
            True,
            True,
        ),
    ],
)
def test_a_user_moves_no_count_by_more_than_one(pair, after, by_one, allowed):
    logs = [ExactCounts({f"aaaaaa{key}": users for key, users in each.items()}, 3, by_one)
            for each in ({"x": 5}, after)]  # fmt: skip
    assert (excess_changes([pair], *logs) == []) == allowed


# --- worlds and what is seen of them ----------------------------------------------------------------


def test_worlds_have_names_of_their_own():
    names = [name for pair in range(3) for name in names_of(pair, 800)]
    assert len(set(names)) == 2400
    assert {len(name) for name in names} == {LETTERS}
    assert [place_of(name) for name in names_of(2, 800)] == [(2, n) for n in range(800)]


@pytest.mark.parametrize("kind", PAIR_MAKERS)
def test_both_logs_of_a_pair_differ_in_one_id_alone(kind):
    for pair in PAIR_MAKERS[kind](SIZES):
        ids = {row.user for row in (*pair.one, *pair.other)}
        assert len(ids) == pair.linked, pair.name
        assert ids.isdisjoint(row.user for row in pair.others), pair.name
        assert pair.rows(0) != pair.rows(1)
        for item in (*pair.counts, *pair.near):
            # Users of the query that it names first, or of the clicked one.
            query, _, url = item.item.partition("|.org/")
            query = query.split(" ")[0].split("|")[0]
            for side, users in enumerate(item.users):
                rows = [r for r in pair.rows(side) if r.query == query and url in (r.url, "")]
                assert len({row.user for row in rows}) == users, (pair.name, item)


@pytest.mark.parametrize("kind", PAIR_MAKERS)
def test_an_exchange_is_of_one_user_for_another_who_does_the_like(kind):
    for pair in (p for p in PAIR_MAKERS[kind](SIZES) if not p.other):
        made = exchange(pair)
        assert len(made.rows(0)) == len(made.rows(1)) == len(pair.rows(0)) + len(pair.rows(1))
        assert {row.user for row in made.one} == {row.user for row in made.other}
        assert {row.query for row in made.one}.isdisjoint(row.query for row in made.other)
        assert {row.user for row in made.one}.isdisjoint(row.user for row in made.others)
        sides = [{r for r in made.rows(side) if not r.query.startswith("b")} for side in (0, 1)]
        assert sides == [set(pair.rows(0)), set(pair.rows(1))]


def test_items_at_a_first_threshold_have_one_user_less_than_it_asks_for():
    sizes = _sizes([parse("zealous(m=2, lam=1.0, tau=5, T=12)")])
    (pair,) = (p for p in PAIR_MAKERS["queries"](sizes) if p.name == FIRST)
    assert {len({r.user for r in pair.rows(side)}) for side in (0, 1)} == {4, 5}
    (setting,) = (s for s in standard_settings("zealous") if "first threshold" in s.name)
    (planned,), _ = auditing._Attacker(Path(), 100).plan([setting])
    assert FIRST in {pair.name for pair in planned.pairs}
    assert FIRST in claimed_setting(mechanism="zealous", epsilon=1.0, delta=1e-6).only
    assert FIRST not in {p.name for p in PAIR_MAKERS["queries"](SIZES)}


def test_a_log_of_worlds_holds_each_on_its_side(tmp_path):
    import pyarrow.parquet as pq

    pairs = PAIR_MAKERS["queries"](SIZES)[:2]
    write_log(tmp_path / "log.parquet", pairs, [np.array([0, 1, 1]), np.array([1, 0])])
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert {row["user"][:LETTERS] for row in rows} == {"aaaaab", "aaaaac", "baaaaa"}
    assert all(row["query"][:LETTERS] == row["user"][:LETTERS] for row in rows)


def test_what_is_a_users_own_ends_with_a_secret_of_its_world(tmp_path):
    import pyarrow.parquet as pq

    (pair,) = (
        p for p in PAIR_MAKERS["clicks"](SIZES) if p.name == "clicks on an unpublished query"
    )
    ends = secrets_of(np.random.default_rng(1).integers(0, 26, 2 * SECRET))
    write_log(tmp_path / "log.parquet", [pair], [np.array([1, 1])], [ends])
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["query"] for row in rows] == [f"aaaaaamine0{ends[0]}", f"aaaaabmine0{ends[1]}"]
    assert without_secret(rows[0]["query"]) == "aaaaaamine0"
    assert without_secret(rows[0]["url"]) == "aaaaaa.org/own0"


def made_seen(inside, rng, *, shift):
    """Counts of one item, and a side column that says nothing."""
    item = ("query", "ours0")
    counts = rng.integers(0, 3, len(inside)) + shift * inside
    return Observation(
        worlds=len(inside),
        numbers={(item, "users"): counts.astype(float), (item, "rows"): np.ones(len(inside))},
    )


def test_an_event_is_found_where_there_is_one_and_none_where_there_is_none():
    rng = np.random.default_rng(2)
    inside = rng.random(3000) < 0.5
    for shift, least in ((2, 1.0), (0, None)):
        what = made_seen(inside, rng, shift=shift)
        found = max(
            e.counts.least(delta=0.0, alpha=1e-6) for e in best_events(what, inside, delta=0.0)
        )
        told = make_guesses(what, inside)
        assert told.canaries == 2000
        bound = least_by_guesses(canaries=told.canaries, guesses=told.guesses, right=told.right,
                                 delta=0.0, alpha=1e-6)  # fmt: skip
        if least is None:
            assert found == bound == 0
        else:
            assert min(found, bound) > least


def test_digits_behind_the_point_are_a_score():
    rng = np.random.default_rng(3)
    inside = rng.random(900) < 0.5
    values = np.where(inside, 0.5, 0.5 + 2.0**-40) + rng.integers(0, 2, 900)
    what = Observation(worlds=900, numbers={(("query", "a"), "users"): values})
    found = max(e.counts.least(delta=0.0, alpha=1e-6) for e in best_events(what, inside, delta=0.0))
    assert found > 2
    assert scores(what, inside, np.arange(900) % 3 == 0)


# --- side channels ---------------------------------------------------------------------------------


def bundles(tmp_path, line):
    """Bundles of one file, whose first line is line(inside)."""
    made = iter(range(1000))

    def release(inside):
        out = tmp_path / str(next(made))
        out.mkdir(parents=True)
        (out / "README.md").write_text(f"{line(inside)}\n")
        return out

    return release


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (lambda inside: f"{20 + inside} users", True),
        (lambda inside: "many users", False),
        (lambda inside: f"{next(FRESH)} users", False),
        (lambda inside: "of " + hashlib.sha256(f"{inside}".encode()).hexdigest(), True),
    ],
    ids=["exact", "constant", "fresh", "digest"],
)
def test_a_line_that_tells_is_found(tmp_path, line, told):
    coins = iter([True, False] * 40)
    found = find_leaks(bundles(tmp_path, line), coin=lambda: next(coins), epsilon=0.5, delta=0.0,
                  alpha=1e-4)  # fmt: skip
    assert bool(found) == told
    if told:
        assert any("README.md: line 1" in each for each in found)


def test_many_lines_that_tell_are_found_and_many_that_seem_to_are_not(tmp_path):
    """Each was a candidate once, which left no level for a test of any of them."""
    coins = iter([True, False] * 40)
    test = {"coin": lambda: next(coins), "epsilon": 0.1, "delta": 1e-6, "alpha": 1e-9}
    found = find_leaks(bundles(tmp_path, lambda inside: f"{20 + inside} users\n" * 200), **test)
    assert len(found) == MOST_CANDIDATES
    # Six releases are as if the lines told; later ones are not.
    lines = itertools.chain([0, 0, 0, 1, 1, 1], itertools.cycle([0, 1, 1, 0]))
    seeming = bundles(tmp_path / "more", lambda _: f"{next(lines)} users\n" * 200)
    assert find_leaks(seeming, **test) == []


def test_a_bundles_own_id_and_sums_are_facts_and_hide_no_others(tmp_path):
    digest = hashlib.sha256(b"log").hexdigest()
    release = "12345678-90ab-cdef"
    (tmp_path / "privacy.json").write_text(f'{{"release_id": "{release}"}}\n')
    own = hashlib.sha256((tmp_path / "privacy.json").read_bytes()).hexdigest()
    (tmp_path / "README.md").write_text(f"release {release[:8]}: 5 users\nof {own}, {digest}\n")
    told = facts(tmp_path)
    assert told["release_id"] == release
    assert told["privacy.json: sum"] == own
    assert told["README.md: line 1"] == "release : 5 users"
    assert told["README.md: line 2"] == f"of , {digest}"


@pytest.mark.parametrize("counts", [{}, {"users": [9, 8]}])
def test_rows_in_an_order_of_their_own_are_found_with_and_without_counts(counts):
    table = pa.table({"query": ["a", "b"], **counts})
    assert check_order({"query": table}) == []
    assert check_order({"query": table.take([1, 0])}) == [
        "the rows of query are not in the canonical order"
    ]


def test_the_systems_noise_never_comes_twice():
    assert find_repeated_noise(auditing.SystemEntropy) == []


# --- the whole audit -------------------------------------------------------------------------------


def one_item(setting):
    return setting.name == "large delta, one item a user"


def three_items(setting):
    return setting.name == "large delta, three items a user"


def test_nothing_is_found_wrong_with_the_real_road():
    made = audit(mechanism="threshold", trials=800, confidence=SURE, only=one_item)
    assert made.violations == []
    nearest = max(each.near or 0 for each in made.measured if each.pair == "items of many")
    assert nearest > 0.5  # the attack works
    assert made.worlds > 2000
    assert json.loads(json.dumps(made.as_json()))["violations"] == []


@pytest.mark.parametrize(
    ("mechanism", "ways"),
    [("threshold", 4), ({"query": "threshold"}, 4), ("synthetic", 2), ({"log": "synthetic"}, 2)],
)
def test_worlds_that_depend_on_each_other_are_no_samples(mechanism, ways):
    (pair,) = (p for p in PAIR_MAKERS["queries"](SIZES) if p.name == "one new item")
    setting = auditing.claimed_setting(mechanism=mechanism, epsilon=1.0, delta=1e-6)
    inside = np.arange(300) % 2 == 0
    what = Observation(
        worlds=300, numbers={(("query", "mine0"), "rows"): np.where(inside, 1.0, np.nan)}
    )
    made = measure(Guarantee(epsilon=1, delta=0), setting, pair, what, inside, 1e-3)
    assert len(made) == ways
    assert "one run" in {each.way for each in made}
    assert all(each.violates for each in made if each.way != "samples, without the user")


# Those that few samples or none are needed for; the others are slow.
QUICK = {
    "noise reused after fork": (lambda s: False, "two forked processes have the same noise"),
    "noise of a fixed seed": (lambda s: False, "two releases of one process have the same noise"),
    "bound skipped": (three_items, "a heavy user: one user moves 12 counts"),
    "repeats counted as users": (three_items, "its own item again and again: one user moves 1"),
    "bound after the tally": (three_items, "ties that steer bounds: one user moves 6 counts"),
    "SafeLog's filter before limiting": (three_items, "items at the threshold: one user moves 3"),
}


@pytest.mark.parametrize(
    "twin", [t for t in TWINS if t.name in QUICK], ids=lambda t: t.name.replace(" ", "-")
)
def test_the_audit_catches_twins_at_once_and_for_what_is_wrong_with_them(twin):
    only, why = QUICK[twin.name]
    made, _ = twin.audited(only=only, confidence=SURE)
    assert why in " ".join(made.violations)
    assert "violation" in made.sentence()


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS, ids=lambda t: t.name.replace(" ", "-"))
def test_the_audit_catches_every_twin(twin):
    made, _ = twin.audited()
    assert made.violations, made.sentence()


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", ["threshold", "rounds", "korolova", "zealous", "pool", "sessions", "session-tree"]
)  # fmt: skip
def test_no_real_mechanism_is_caught(mechanism):
    made = audit(mechanism=mechanism, confidence=SURE)
    assert made.violations == []
    assert made.best is not None
    # Samples cannot show the rare events in which Gaussian noise at a small delta costs its epsilon.
    if mechanism != "session-tree":
        assert made.best.near is None or made.best.near > 0.2 * made.best.claim
    if mechanism not in ("rounds", "sessions", "session-tree"):
        assert made.best.least > 0.3 * made.best.claim


@pytest.mark.slow
def test_a_stranger_can_run_it():
    script = ROOT / "audits" / "run.py"
    done = subprocess.run([sys.executable, script, "--only", "fixed seed"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 twins caught; 0 of 0 mechanisms violated" in done.stdout


def test_what_claims_nothing_is_not_audited():
    with pytest.raises(UsageError, match="no k gives"):
        audit(mechanism="k-query")
    with pytest.raises(UsageError, match="--confidence must lie"):
        audit(confidence=1.0)
    with pytest.raises(UsageError, match="--trials must lie"):
        audit(trials=3)


def test_worlds_never_run_out_of_names():
    most = max(each.more for name in ("threshold", "rounds", "korolova", "pool", "sessions")
               for each in standard_settings(name))  # fmt: skip
    assert auditing.MOST_TRIALS * most <= 26 ** (LETTERS - 1) < auditing.MOST_TRIALS * (most + 1)
    with pytest.raises(UsageError, match="--trials must lie between 30 and 3960458"):
        audit(trials=auditing.MOST_TRIALS + 1)


@pytest.mark.parametrize("table", ["query", "click"])
def test_a_claim_for_replaced_users_is_attacked_by_replacing_one(tmp_path, table):
    first = claimed_setting(mechanism="threshold", epsilon=1.0, delta=1e-6, neighbours="replace",
                    tables=(table,))  # fmt: skip
    (planned,), _ = auditing._Attacker(tmp_path, 100).plan([first])
    assert planned.pairs
    assert all(pair.other for pair in planned.pairs)
    assert sum(len(pair.counts) for pair in planned.pairs) > 0
    if table == "query":  # where neither's items are new, and epsilon shows
        assert [pair.name for pair in planned.pairs] == [
            "items of many for others", "items at the threshold for others"
        ]  # fmt: skip


def test_worlds_of_published_keywords_are_no_samples():
    shared = {"mechanism": "zealous", "epsilon": 1.0, "delta": 1e-6}
    assert claimed_setting(**shared).independent
    assert not claimed_setting(**shared, options={"via_keywords": True}).independent


def test_every_test_of_a_setting_is_counted(tmp_path):
    first = claimed_setting(
        mechanism="threshold", epsilon=1.0, delta=1e-6, tables=("query", "click")
    )
    (planned,), _ = auditing._Attacker(tmp_path, 100).plan([first])
    # Five pairs; the counts of a query and of its click; a share of clicks on either side.
    assert planned.tests == 4 * 5 + 2 + 2


# --- words, pictures and files ----------------------------------------------------------------------


def canned(*, least=0.83, faults=()):
    claim = Guarantee(epsilon=1.0, delta=1e-6)
    measured = [
        Measurement(setting="as claimed", pair="items of many", way="one run", claim=1.0, delta=1e-6,
                 least=least, near=0.97, most=1.1),
        Measurement(setting="as claimed", pair="three ids", way="one run", claim=3.0, delta=1e-5,
                 least=2.5, linked=3),
    ]  # fmt: skip
    return Audit(mechanism="threshold", claim=claim, confidence=0.99, tests=2, measured=measured,
                 faults=list(faults))  # fmt: skip


def test_a_verdict_never_says_private():
    good, bad = canned(), canned(least=1.4)
    assert good.sentence() == "no violation found (claimed 1, measured at least 0.83 at 99 %)"
    assert "1 violation found at 99 %" in bad.sentence()
    assert "measured at least 1.4" in bad.violations[0]
    for made in (good, bad):
        assert "private" not in json.dumps(made.as_json())


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (canned(), 0),
        (canned(least=1.5), 1),
        (canned(faults=[Fault(setting="noise", what="noise comes twice")]), 1),
    ],
)
def test_the_command_prints_draws_and_exits(tmp_path, made, code):
    with mock.patch.object(auditing, "audit", return_value=made):
        told = run("audit", "--mechanism", "threshold", "--picture", "a.html", cwd=tmp_path)
        data = run("audit", "--json", cwd=tmp_path)
    assert told.returncode == data.returncode == code
    assert made.sentence() in told.stdout
    assert ("VIOLATION" in told.stdout) == bool(code)
    assert json.loads(data.stdout)["verdict"] == made.sentence()
    page = (tmp_path / "a.html").read_text()
    assert "<svg" in page
    assert "items of many" in page
    assert "private" not in told.stdout + page


def test_a_picture_is_red_where_a_claim_is_refuted():
    bars = [Bar(label="a < b", claim=1.0, least=least, near=None, most=None) for least in (0.5, 2)]
    svg = intervals(bars, title="t")
    assert svg.count("#b3261e") == 2
    assert "a &lt; b" in svg


def test_a_specification_says_what_is_attacked(tmp_path):
    path = tmp_path / "murmurlog.toml"
    path.write_text(
        '[release]\ntables = ["query", "click"]\nepsilon = "ln(10)"\ndelta = 1e-5\n'
        'mechanism = "query=rounds,click=threshold"\nper-user = "query=3,click=2"\nrounds = 2\n'
        'out = "b"\n'
    )
    asked = audited(path)
    assert asked["epsilon"] == pytest.approx(math.log(10))
    assert asked["tables"] == ("query", "click")
    assert asked["mechanism"] == {"query": "rounds", "click": "threshold"}
    assert asked["per_user"] == {"query": 3, "click": 2}
    assert asked["options"] == {"rounds": 2}
    with mock.patch.object(auditing, "audit", return_value=canned()) as called:
        assert run("audit", "--spec", path, cwd=tmp_path).returncode == 0
    assert called.call_args.kwargs["epsilon"] == asked["epsilon"]
    for more in (("--epsilon", "1"), ("--neighbours", "replace"), ("--neighbours", "add-remove")):
        done = run("audit", "--spec", path, *more, cwd=tmp_path)
        assert done.returncode == 2
        assert "--spec says what is attacked" in done.stderr


def test_a_specification_without_bounds_is_attacked_at_those_of_a_release(tmp_path):
    path = tmp_path / "murmurlog.toml"
    path.write_text('[release]\nmechanism = "threshold"\nepsilon = 1\ndelta = 1e-6\n')
    asked = {name: value for name, value in audited(path).items() if value is not None}
    (planned,), _ = auditing._Attacker(tmp_path, 30).plan([auditing.claimed_setting(**asked)])
    assert planned.plans["query"].mechanism.parameters()["per_user"] == Mechanism.usual_bound > 1
    with mock.patch.object(
        auditing, "claimed_setting", side_effect=auditing.claimed_setting
    ) as called:
        audit(**asked, trials=30, only=lambda s: False)
    assert called.call_args.kwargs["per_user"] == {}


def test_a_specification_with_lists_is_attacked_with_lists_of_the_audits_own(tmp_path):
    path = tmp_path / "murmurlog.toml"
    path.write_text(
        '[release]\nmechanism = "korolova"\ntables = ["query", "click"]\nper-user = 1\n'
        'epsilon = 2\ndelta = 0.1\nresult-lists = "nowhere.tsv"\n'
    )
    made = audit(**audited(path), trials=60, confidence=SURE,
                 only=lambda s: s.name == "as claimed")  # fmt: skip
    assert "A2" in made.claim.assumptions  # the lists are public
    assert made.violations == []


@pytest.mark.parametrize(
    "release",
    ['tables = ["query", "left_out"]', 'mechanism = "sessions"\nmap = "length"'],
    ids=["left_out", "map"],
)
def test_what_names_no_world_is_not_audited(tmp_path, release):
    (tmp_path / "a.toml").write_text(f"[release]\n{release}\nper-user = 1\nepsilon = 1\n")
    done = run("audit", "--spec", tmp_path / "a.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "all worlds together" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[plan]\n", "no [release] section"),
        ("[release]\nset = 'T=3'\n", "letters"),
        ("[release]\nunit = 'user-day'\n", "unit user"),
        ("[release\n", "not TOML"),
        ("[release]\nepsilon = 'much'\n", "no number"),
    ],
)
def test_specifications_that_cannot_be_attacked_are_refused(tmp_path, text, said):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        audited(path)
    assert said in str(raised.value)

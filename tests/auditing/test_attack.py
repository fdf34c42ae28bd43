"""The audit by bundles: its bounds are right, it finds nothing wrong with real releases, and sees a broken one."""

import json
import math
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from command import run
from scipy.stats import binom
from twins import TWINS
from white_box import WhiteBox

from murmurlog.auditing import attack as auditing
from murmurlog.auditing.attack import audit
from murmurlog.auditing.epsilon_bounds import (
    MOST_EPSILON,
    Counts,
    least_by_guesses,
    loss,
    lower_bound,
    p_value,
    upper_bound,
)
from murmurlog.auditing.figure import draw_intervals
from murmurlog.auditing.measurement import Measurement, measure
from murmurlog.auditing.neighbouring_logs import (
    FIRST,
    LETTERS,
    PAIR_MAKERS,
    SECRET,
    Sizes,
    exchange,
    names_of,
    place_of,
    secrets_of,
    without_secret,
    write_log,
)
from murmurlog.auditing.observer import Observation, best_events, make_guesses, scores
from murmurlog.auditing.result import Audit
from murmurlog.auditing.settings import _sizes, claimed_setting, standard_settings
from murmurlog.cli.audit import spec_arguments
from murmurlog.errors import UsageError
from murmurlog.mechanisms import Mechanism, parse
from murmurlog.privacy import Guarantee

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
    least = least_by_guesses(canaries=10_000, guesses=10_000, right=right, delta=0, alpha=0.01)
    assert 0.9 < least < 1
    assert p_value(canaries=20, guesses=20, right=20, epsilon=0, delta=0) == pytest.approx(2**-20)
    some = {"canaries": 100, "guesses": 100, "right": 70, "epsilon": 0.5}
    assert p_value(**some, delta=1e-3) > p_value(**some, delta=0)
    assert least_by_guesses(canaries=50, guesses=0, right=0, delta=0, alpha=0.01) == 0


def attacker(folder, first):
    return auditing.Attacker(folder=folder, first=first, trials=100)


# --- worlds and what is seen of them ----------------------------------------------------------------


def test_worlds_have_names_of_their_own():
    names = [name for pair in range(3) for name in names_of(pair, 800)]
    assert len(set(names)) == 2400
    assert {len(name) for name in names} == {LETTERS}
    assert [place_of(name) for name in names_of(2, 800)] == [(2, n) for n in range(800)]


@pytest.mark.parametrize("kind", PAIR_MAKERS)
def test_both_logs_of_a_pair_differ_in_one_id_alone(kind):
    for pair in PAIR_MAKERS[kind](SIZES):
        ids = {row.user for row in (*pair.target, *pair.replacement)}
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
    for pair in (p for p in PAIR_MAKERS[kind](SIZES) if not p.replacement):
        exchanged = exchange(pair)
        assert (
            len(exchanged.rows(0))
            == len(exchanged.rows(1))
            == len(pair.rows(0)) + len(pair.rows(1))
        )
        assert {row.user for row in exchanged.target} == {row.user for row in exchanged.replacement}
        assert {row.query for row in exchanged.target}.isdisjoint(
            row.query for row in exchanged.replacement
        )
        assert {row.user for row in exchanged.target}.isdisjoint(
            row.user for row in exchanged.others
        )
        sides = [
            {r for r in exchanged.rows(side) if not r.query.startswith("b")} for side in (0, 1)
        ]
        assert sides == [set(pair.rows(0)), set(pair.rows(1))]


def test_items_at_a_first_threshold_have_one_user_less_than_it_asks_for():
    sizes = _sizes([parse("zealous(m=2, lam=1.0, tau=5, T=12)")])
    (pair,) = (p for p in PAIR_MAKERS["queries"](sizes) if p.name == FIRST)
    assert {len({r.user for r in pair.rows(side)}) for side in (0, 1)} == {4, 5}
    (setting,) = (s for s in standard_settings("zealous") if "first threshold" in s.name)
    (planned,), _ = attacker(Path(), setting).plan([setting])
    assert FIRST in {pair.name for pair in planned.pairs}
    assert FIRST in claimed_setting(mechanism="zealous", epsilon=1.0, delta=1e-6).pair_names
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
        by_events = max(
            e.counts.least(delta=0.0, alpha=1e-6) for e in best_events(what, inside, delta=0.0)
        )
        guesses = make_guesses(what, inside)
        assert guesses.canaries == 2000
        by_guesses = least_by_guesses(canaries=guesses.canaries, guesses=guesses.guesses, right=guesses.right,
                                      delta=0.0, alpha=1e-6)  # fmt: skip
        if least is None:
            assert by_events == by_guesses == 0
        else:
            assert min(by_events, by_guesses) > least


def test_digits_behind_the_point_are_a_score():
    rng = np.random.default_rng(3)
    inside = rng.random(900) < 0.5
    values = np.where(inside, 0.5, 0.5 + 2.0**-40) + rng.integers(0, 2, 900)
    what = Observation(worlds=900, numbers={(("query", "a"), "users"): values})
    least = max(e.counts.least(delta=0.0, alpha=1e-6) for e in best_events(what, inside, delta=0.0))
    assert least > 2
    assert scores(what, inside, np.arange(900) % 3 == 0)


# --- the whole audit -------------------------------------------------------------------------------


def one_item(setting):
    return setting.name == "large delta, one item a user"


def test_nothing_is_found_wrong_with_a_real_release():
    result = audit(mechanism="threshold", trials=800, confidence=SURE, only=one_item)
    assert result.violations == []
    nearest = max(m.near or 0 for m in result.measured if m.pair == "items of many")
    assert nearest > 0.5  # the attack works
    assert result.worlds > 2000
    assert json.loads(json.dumps(result.as_json()))["violations"] == []


def test_a_threshold_that_is_one_too_low_shows_in_the_bundle():
    (twin,) = (twin for twin in TWINS if twin.name == "threshold without the +1")
    with twin.broken():
        # The claim is a chance of 0.05, the truth 0.14: 1500 worlds tell them apart by eight standard deviations.
        result = audit(mechanism="threshold", trials=3000, confidence=0.99, only=one_item)
    assert any("new items (own items" in text for text in result.violations)


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
    measurements = measure(Guarantee(epsilon=1, delta=0), setting, pair, what, inside, 1e-3)
    assert len(measurements) == ways
    assert "one run" in {m.method for m in measurements}
    assert all(m.violates for m in measurements if m.method != "samples, without the user")


def test_what_claims_nothing_is_not_audited():
    with pytest.raises(UsageError, match="no k gives"):
        audit(mechanism="k-query")
    with pytest.raises(UsageError, match="--confidence must lie"):
        audit(confidence=1.0)
    with pytest.raises(UsageError, match="--trials must lie"):
        audit(trials=3)


def test_worlds_never_run_out_of_names():
    most = max(setting.world_factor for name in ("threshold", "rounds", "korolova", "pool", "sessions")
               for setting in standard_settings(name))  # fmt: skip
    assert auditing.MOST_TRIALS * most <= 26 ** (LETTERS - 1) < auditing.MOST_TRIALS * (most + 1)
    with pytest.raises(UsageError, match="--trials must lie between 30 and 3960458"):
        audit(trials=auditing.MOST_TRIALS + 1)


@pytest.mark.parametrize("table", ["query", "click"])
def test_a_claim_for_replaced_users_is_attacked_by_replacing_one(tmp_path, table):
    first = claimed_setting(mechanism="threshold", epsilon=1.0, delta=1e-6, neighbours="replace",
                    tables=(table,))  # fmt: skip
    (planned,), _ = attacker(tmp_path, first).plan([first])
    assert planned.pairs
    assert all(pair.replacement for pair in planned.pairs)
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
    (planned,), _ = attacker(tmp_path, first).plan([first])
    black_box = {"folder": tmp_path, "first": first, "trials": 100}
    assert auditing.Attacker(**black_box).count_tests([planned]) == 4 * 5  # five pairs
    # The counts of a query and of its click; a share of clicks on either side; side channels.
    assert WhiteBox(**black_box).count_tests([planned]) == 4 * 5 + 2 + 2 + 1


# --- words, pictures and files ----------------------------------------------------------------------


def make_audit(*, least=0.83):
    claim = Guarantee(epsilon=1.0, delta=1e-6)
    measured = [
        Measurement(setting="as claimed", pair="items of many", method="one run", claim=1.0, delta=1e-6,
                 least=least, near=0.97, most=1.1),
        Measurement(setting="as claimed", pair="three ids", method="one run", claim=3.0, delta=1e-5,
                 least=2.5, linked=3),
    ]  # fmt: skip
    return Audit(mechanism="threshold", claim=claim, confidence=0.99, tests=2, measured=measured)


def test_a_verdict_never_says_private():
    good, bad = make_audit(), make_audit(least=1.4)
    assert good.sentence() == "no violation found (claimed 1, measured at least 0.83 at 99 %)"
    assert "1 violation found at 99 %" in bad.sentence()
    assert "measured at least 1.4" in bad.violations[0]
    for result in (good, bad):
        assert "private" not in json.dumps(result.as_json())


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (make_audit(), 0),
        (make_audit(least=1.5), 1),
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
    measurements = [
        Measurement(setting="s", pair="a < b", method="one run", claim=1.0, delta=1e-6, least=least)
        for least in (0.5, 2)
    ]
    svg = draw_intervals(measurements, title="t")
    assert svg.count("#b3261e") == 2
    assert "a &lt; b" in svg


def test_a_specification_says_what_is_attacked(tmp_path):
    path = tmp_path / "murmurlog.toml"
    path.write_text(
        '[release]\ntables = ["query", "click"]\nepsilon = "ln(10)"\ndelta = 1e-5\n'
        'mechanism = "query=rounds,click=threshold"\nper-user = "query=3,click=2"\nrounds = 2\n'
        'out = "b"\n'
    )
    arguments = spec_arguments(path)
    assert arguments["epsilon"] == pytest.approx(math.log(10))
    assert arguments["tables"] == ("query", "click")
    assert arguments["mechanism"] == {"query": "rounds", "click": "threshold"}
    assert arguments["per_user"] == {"query": 3, "click": 2}
    assert arguments["options"] == {"rounds": 2}
    with mock.patch.object(auditing, "audit", return_value=make_audit()) as called:
        assert run("audit", "--spec", path, cwd=tmp_path).returncode == 0
    assert called.call_args.kwargs["epsilon"] == arguments["epsilon"]
    for more in (("--epsilon", "1"), ("--neighbours", "replace"), ("--neighbours", "add-remove")):
        done = run("audit", "--spec", path, *more, cwd=tmp_path)
        assert done.returncode == 2
        assert "--spec says what is attacked" in done.stderr


def test_a_specification_without_bounds_is_attacked_at_those_of_a_release(tmp_path):
    path = tmp_path / "murmurlog.toml"
    path.write_text('[release]\nmechanism = "threshold"\nepsilon = 1\ndelta = 1e-6\n')
    arguments = {name: value for name, value in spec_arguments(path).items() if value is not None}
    first = claimed_setting(**arguments)
    (planned,), _ = attacker(tmp_path, first).plan([first])
    assert planned.plans["query"].mechanism.parameters()["per_user"] == Mechanism.usual_bound > 1
    with mock.patch.object(
        auditing, "claimed_setting", side_effect=auditing.claimed_setting
    ) as called:
        audit(**arguments, trials=30, only=lambda s: False)
    assert called.call_args.kwargs["per_user"] == {}


def test_a_specification_with_lists_is_attacked_with_lists_of_the_audits_own(tmp_path):
    path = tmp_path / "murmurlog.toml"
    path.write_text(
        '[release]\nmechanism = "korolova"\ntables = ["query", "click"]\nper-user = 1\n'
        'epsilon = 2\ndelta = 0.1\nresult-lists = "nowhere.tsv"\n'
    )
    result = audit(**spec_arguments(path), trials=60, confidence=SURE,
                 only=lambda s: s.name == "as claimed")  # fmt: skip
    assert "A2" in result.claim.assumptions  # the lists are public
    assert result.violations == []


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
        spec_arguments(path)
    assert said in str(raised.value)

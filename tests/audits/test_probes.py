"""What looks inside: the law of noise, shares that pass, what one user moves, side channels."""

import hashlib
import itertools

import numpy as np
import pyarrow as pa
import pytest
from noise_stages import fit_p_value
from probes import (
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

from murmurlog.auditing.neighbouring_logs import (
    PAIR_MAKERS,
    KnownCount,
    Pair,
    Sizes,
)
from murmurlog.auditing.observer import Observation
from murmurlog.auditing.settings import _sizes
from murmurlog.mechanisms import Rounds, parse
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy, draw

FRESH = iter(range(1000))
SIZES = Sizes(d=2, near=3, sure=9, crowd=12)


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
            found = mechanism.decide(k, measured, remembered)
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
    item = KnownCount("session", "ours0 ours1", (40, 41), queries=2)
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
        (
            Pair(name="p", replacement=PAIR_MAKERS["exchanges"](SIZES)[0].replacement),
            {"x": 7},
            True,
            False,
        ),
        (
            Pair(name="p", replacement=PAIR_MAKERS["exchanges"](SIZES)[0].replacement),
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
    assert find_repeated_noise(SystemEntropy) == []

"""The private profile: moved by one unit no further than proved, noised as claimed, nothing exact."""

import copy
import json
import math
import re
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import murmurlog.cli.main as entry
from murmurlog.errors import InputError, MurmurlogError, Refused, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.privacy import Guarantee, gaussian_delta, sides
from murmurlog.privacy.projections import length_above_noise, nonincreasing, nonnegative
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.planning import outline_noise as measuring
from murmurlog.publishing.planning.outline import Outline, Ranks, Size, measure, read_outline
from murmurlog.publishing.planning.outline_counts import Counted, block_sums, count
from murmurlog.publishing.planning.outline_noise import (
    BINS,
    BLOCKS,
    GROUPS,
    RANKS,
    WIDTHS,
    Measurement,
    in_groups,
)
from murmurlog.publishing.planning.private_profile import survey

# --- what is measured ---------------------------------------------------------------------------


def test_bins_blocks_and_groups_cover_everything_once():
    assert BINS[0] == (1, 1)
    assert all(one[1] + 1 == other[0] for one, other in pairwise(BINS))
    assert sum(BLOCKS) == sum(WIDTHS) == RANKS
    assert sum(GROUPS) == len(BLOCKS)
    assert WIDTHS[:4] == (1, 1, 1, 2)
    assert in_groups(BLOCKS) == list(WIDTHS)


def rows_of(history):
    """Rows of a log from {user: queries}, each query at its own second."""
    return [
        {"user": user, "time": f"2026-01-01 00:{i // 60:02}:{i % 60:02}", "query": query}
        for user, queries in history.items()
        for i, query in enumerate(queries)
    ]


def counted_of(path, *, per_user, **more):
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        return count(log, per_user=per_user, entropy=SeededEntropy(1), **more)


def test_units_fall_into_their_bins_and_counts_are_sorted(write_tsv):
    words = [f"q{i:02}" for i in range(30)]
    history = {"a": words, "b": [*words[:5], *words[:5]], "c": words[:1], "d": words[:2]}
    path = write_tsv(rows_of(history))
    counted = counted_of(path, per_user=3)
    whole = Outline(
        kind=counted.kind,
        unit=counted.unit,
        per_user=counted.per_user,
        sizes=tuple(
            Size(least=least, most=most, units=units)
            for (least, most), units in zip(BINS, counted.sizes, strict=True)
        ),
        popularity=tuple(
            Ranks(items=size, users=total / size)
            for size, total in zip(BLOCKS, counted.sums, strict=True)
        ),
        guarantee=None,
    )
    units = {(size.least, size.most): size.units for size in whole.sizes}
    assert units == dict.fromkeys(BINS, 0) | {(1, 1): 1, (2, 2): 1, (5, 6): 1, (25, 32): 1}
    # q00 of all four, q01 of three, q02 of two: bounded to three, nobody holds more
    assert whole.units == 4
    assert [whole.users_at(rank) for rank in (1, 2, 3, 4, RANKS, RANKS + 1)] == [4, 3, 2, 0, 0, 0]
    assert not whole.private
    assert whole.guarantee is None


def test_a_block_holds_the_mean_of_its_ranks():
    # 7 items of 5 units and 100 of 2: ranks 8 to 107
    sums = block_sums([(2, 100), (5, 7)])
    ends = np.cumsum(BLOCKS)
    flat = [5] * 7 + [2] * 100
    assert list(sums) == [
        sum(flat[end - size : end]) for size, end in zip(BLOCKS, ends, strict=True)
    ]


# --- the theorem --------------------------------------------------------------------------------


def moved(x, y, scale):
    """Squared l2 distance of the two vectors of group sums in units of sigma, exactly."""
    sums = [in_groups(block_sums([(n, 1) for n in vector if n])) for vector in (x, y)]
    return sum(
        Fraction((one - other) ** 2, scale(width))
        for one, other, width in zip(*sums, WIDTHS, strict=True)
    )


COUNTS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 90)), min_size=1, max_size=8)
PLACES = st.lists(st.integers(0, 400), max_size=40)


def neighbours_of(runs, places, others, d):
    """Counts of items, with the (at most d) items of a unit, and with those of another."""
    x = np.repeat([n for n, _ in runs], [many for _, many in runs])
    x = np.concatenate([x, np.zeros(2 * d, int)])
    with_unit, with_other = x.copy(), x.copy()
    with_unit[sorted({p % len(x) for p in places})[:d]] += 1
    with_other[sorted({p % len(x) for p in others})[:d]] += 1
    return x.tolist(), with_unit.tolist(), with_other.tolist()


@settings(max_examples=60, deadline=None)
@given(COUNTS, PLACES, PLACES, st.integers(1, 30))
def test_one_unit_moves_the_sorted_counts_no_further_than_proved(runs, places, others, d):
    x, with_unit, with_other = neighbours_of(runs, places, others, d)

    def claimed(width):
        return min(width, d)

    assert moved(x, with_unit, claimed) <= d
    assert moved(with_unit, with_other, claimed) <= 2 * d


def test_the_bound_is_reached_and_smaller_noise_would_break_it():
    d, before = 20, sum(WIDTHS[:12])
    width = WIDTHS[12]
    assert width > d
    x = [9] * before + [3] * width + [0] * d
    y = [9] * before + [4] * d + [3] * (width - d) + [0] * d
    assert moved(x, y, lambda width: min(width, d)) == d
    # twins: noise that does not grow with the block; noise as for a mean; half of the bound
    assert moved(x, y, lambda width: 1) > d
    assert moved(x, y, lambda width: min(width, d // 2)) > d
    # under replace, in both directions
    z = [9] * before + [3] * width + [1] * d
    assert sum(WIDTHS[:13]) == before + width
    assert moved(y, z, lambda width: min(width, d)) == 2 * d


HISTORY = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.sampled_from([f"q{i}" for i in range(12)]), min_size=1, max_size=14),
    min_size=1,
)


def differences(one, other, d):
    """(sizes, sorted counts): squared distances in units of their sigma."""
    sizes = sum((a - b) ** 2 for a, b in zip(one.sizes, other.sizes, strict=True))
    pairs = zip(in_groups(one.sums), in_groups(other.sums), WIDTHS, strict=True)
    return sizes, sum(Fraction((a - b) ** 2, min(width, d)) for a, b, width in pairs)


def check_neighbours_of(folder, history, new, d):
    """Counts a log without the unit a, with it, and with another in its place."""
    rest = {user: queries for user, queries in history.items() if user != "a"} | {"e": ["q1"]}
    found = []
    for name, more in (("no", {}), ("a", {"a": history.get("a", ["q2"])}), ("new", {"a": new})):
        path = folder / f"{name}.tsv"
        lines = [f"{r['user']}\t{r['time']}\t{r['query']}" for r in rows_of(rest | more)]
        path.write_text("\n".join(["user\ttime\tquery", *lines]) + "\n", encoding="utf-8")
        found.append(counted_of(path, per_user=d))
    for one, other, c in ((0, 1, 1), (0, 2, 1), (1, 2, 2)):
        sizes, ranks = differences(found[one], found[other], d)
        assert sizes <= c
        assert ranks <= c * d
    return differences(found[1], found[2], d)


def test_from_log_to_vectors_the_bound_holds(tmp_path):
    """Sorted, 3 2 becomes 2 1 1 1, whose last is in a group of two ranks."""
    history = {"a": ["q1", "q2", "q3", "q4"], "b": ["q1", "q2", "q5"]}
    assert check_neighbours_of(tmp_path, history, ["x", "y"], 2) == (2, Fraction(7, 2))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(HISTORY, st.lists(st.sampled_from("xyz"), min_size=1, max_size=5), st.integers(1, 4))
def test_from_log_to_vectors_one_unit_moves_them_no_further(tmp_path_factory, history, new, d):
    check_neighbours_of(tmp_path_factory.mktemp("logs"), history, new, d)


def test_without_the_bound_one_unit_moves_too_far(write_tsv):
    """The twin that counts all items of a unit is caught, and measuring it is refused."""
    rest = {"e": ["q1"]}
    own = {"a": [f"q{i}" for i in range(1, 13)]}
    found = [
        counted_of(write_tsv(rows_of(h), name=f"{i}.tsv"), per_user=12)
        for i, h in enumerate((rest, rest | own))
    ]
    assert differences(*found, d=3)[1] > 3
    noise = Measurement.solve(epsilon=1, delta=1e-6, d=3)
    with pytest.raises(UsageError, match="bounded to 12 a unit, not to 3"):
        measure(found[1], noise, epsilon=1, entropy=SystemEntropy())


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "d"), [(0.1, 1e-6, 20), (3, 1e-11, 1), (0.5, 0.01, 500)]
)
def test_its_guarantee_is_the_gaussian_mechanism_s(neighbours, epsilon, delta, d):
    noise = Measurement.solve(epsilon=epsilon, delta=delta, d=d, neighbours=neighbours)
    stated = noise.guarantee(epsilon=epsilon, neighbours=neighbours)
    c = sides(neighbours)
    mu = math.sqrt(c / noise.sigma_sizes**2 + c * d / noise.sigma_ranks**2)
    assert gaussian_delta(epsilon=epsilon, mu=mu) <= stated.delta <= delta
    assert stated.delta >= delta * 0.999  # no more noise than needed
    assert "A1" in stated.assumptions
    less = Measurement(d=d, sigma_sizes=noise.sigma_sizes, sigma_ranks=noise.sigma_ranks * 0.99)
    assert less.guarantee(epsilon=epsilon, neighbours=neighbours).delta > delta


def test_every_number_gets_the_noise_that_the_theorem_is_about(monkeypatch):
    asked = []
    real = measuring.draw

    def watched(*, noise, scale, count, entropy):
        asked.append((noise, scale, count))
        return real(noise=noise, scale=scale, count=count, entropy=entropy)

    monkeypatch.setattr(measuring, "draw", watched)
    noise = Measurement(d=20, sigma_sizes=7.0, sigma_ranks=3.0)
    noise.sizes([0] * len(BINS), entropy=SystemEntropy())
    noise.popularity([0] * len(BLOCKS), entropy=SystemEntropy())
    expected = [("gaussian", pytest.approx(3.0 * math.sqrt(min(w, 20))), 1) for w in WIDTHS]
    assert asked == [("gaussian", 7.0, len(BINS)), *expected]


def test_the_noise_has_its_size():
    """The sum of all sizes keeps its noise: too little and too much are both seen."""
    noise = Measurement(d=1, sigma_sizes=5.0, sigma_ranks=1.0)
    units = [10_000] * len(BINS)
    found = [noise.sizes(units, entropy=SystemEntropy()).sum() - sum(units) for _ in range(4000)]
    share = np.std(found) / (5 * math.sqrt(len(BINS)))
    assert 0.92 < share < 1.08  # seven standard errors


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"epsilon": math.inf}, "epsilon must be a positive number"),
        ({"delta": 1}, "delta must lie between 0 and 1"),
        ({"delta": 1e-30}, "below what the noise sampler can certify"),
        ({"d": 0}, "--per-user must lie between 1 and 100000, not 0"),
        ({"d": 100_001}, "--per-user must lie between"),
        ({"neighbours": "swap"}, "unknown neighbour relation 'swap'"),
    ],
)
def test_what_cannot_be_measured_is_refused(asked, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        Measurement.solve(**({"epsilon": 1.0, "delta": 1e-6, "d": 20} | asked))


def test_noise_that_cannot_be_drawn_is_refused_at_birth():
    for sigma in (0.0, -1.0, math.nan, 1e-5, 2.0**41):
        with pytest.raises(UsageError, match="a scale of noise must lie between"):
            Measurement(d=2, sigma_sizes=sigma, sigma_ranks=1.0)
        with pytest.raises(UsageError, match="a scale of noise must lie between"):
            Measurement(d=2, sigma_sizes=1.0, sigma_ranks=sigma)


# --- what is made of it -------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), min_size=1, max_size=7))
def test_falling_is_the_isotonic_regression(pairs):
    """The min-max formula over all intervals, a second road to the same numbers."""
    values, weights = (np.array(part, float) for part in zip(*pairs, strict=True))

    def mean(a, b):
        return np.average(values[a : b + 1], weights=weights[a : b + 1])

    n = len(pairs)
    expected = [min(max(mean(a, b) for b in range(i, n)) for a in range(i + 1)) for i in range(n)]
    assert nonincreasing(values, weights) == pytest.approx(expected)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-20, 40), min_size=1, max_size=9), st.integers(-9, 99))
def test_shared_out_is_the_nearest_of_a_sum(numbers, total):
    values = np.array(numbers, float)
    found = nonnegative(values, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(max(0, total))
    if total > 0:  # the conditions of Karush, Kuhn and Tucker
        shift = (values - found)[found > 1e-9]
        assert np.ptp(shift) == pytest.approx(0, abs=1e-9)
        assert (values[found <= 1e-9] <= shift.min() + 1e-9).all()


def test_a_tail_of_noise_is_told_apart():
    assert length_above_noise(np.array([900.0, 50, 3, -9, 5]), 10) == 2
    assert length_above_noise(np.array([900.0, 40, 3, 60, 5]), 10) == 4
    assert (
        length_above_noise(np.array([900.0, 15, 15, 15, 15]), 10) == 4
    )  # two of them are something
    assert length_above_noise(np.array([1.0, 1, 1]), 10) == 1


def test_smoothing_changes_no_sum_and_never_rises():
    sums = in_groups(block_sums([(5000 // rank, 1) for rank in range(1, 5001)]))
    means = measuring.smooth_blocks(sums)
    assert (np.diff(means) <= 0).all()
    assert (means * BLOCKS).sum() == pytest.approx(sum(sums))
    hostile = [(-1) ** i * 1000 * i for i in range(len(WIDTHS))]
    means = measuring.smooth_blocks(hostile)
    assert (np.diff(means) <= 0).all()
    assert (means >= 0).all()
    assert (measuring.smooth_blocks([-5] * len(WIDTHS)) == 0).all()


def outline_with(units):
    sizes = [Size(least=a, most=b, units=n) for (a, b), n in zip(BINS, units, strict=False)]
    return Outline(
        kind="query", unit="user", per_user=20, sizes=tuple(sizes),
        popularity=(Ranks(items=3, users=2.0),), guarantee=None,
    )  # fmt: skip


def test_items_per_unit_follow_from_the_sizes():
    assert outline_with([10, 0, 0, 0]).items_per_unit() == {"mean": 1.0, "p50": 1.0, "p99": 1.0}
    assert outline_with([50, 49, 1, 0]).items_per_unit() == {"mean": 1.51, "p50": 1.0, "p99": 2.0}
    assert outline_with([0, 0, 0, 0, 0]).items_per_unit() == {"mean": 0.0, "p50": 0.0, "p99": 0.0}
    spread = outline_with([0] * 12 + [100]).items_per_unit()
    assert 64 < spread["p50"] < spread["mean"] < spread["p99"] == 128


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "session"}, "--kind must be one of query, keyword, click, pair"),
        ({"unit": "person"}, "unknown unit 'person'"),
        ({"per_user": 0}, "--per-user must lie between"),
        ({"sizes": ()}, "needs sizes and popularity"),
        ({"sizes": (Size(least=3, most=4, units=1), Size(least=4, most=5, units=1))}, "overlap"),
        ({"popularity": (Ranks(items=1, users=1), Ranks(items=1, users=2))}, "does not rise"),
    ],
)
def test_an_outline_is_checked_at_birth(change, message):
    right = outline_with([1, 2])
    fields = {name: getattr(right, name) for name in right.__dataclass_fields__}
    with pytest.raises(UsageError, match=re.escape(message)):
        Outline(**(fields | change))


# --- as a file ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A log of 400 users with 7,919 usable rows, 5,417 without a user and 6,133 to be screened."""
    folder = tmp_path_factory.mktemp("place")
    lines = ["user\ttime\tquery\turl"]
    for i in range(7919):
        user, query = i % 400, (i * i) % 97
        lines.append(f"u{user}\t2026-01-01 10:{i % 60:02}:00\tquery {query}\texample.org/{i % 7}")
    lines += ["\t2026-01-01 10:00:00\tno one\t"] * 5417
    lines += ["u1\t2026-01-01 10:00:00\tmail me at someone@example.org\t"] * 6133
    (folder / "log.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def made(place):
    return survey(str(place / "log.tsv"), epsilon=1, max_broken=1, delta=1e-6)


def test_json_and_back_is_the_same(made, write_tsv):
    text = json.dumps(made.as_json())
    assert Outline.from_json(json.loads(text)) == made.outline
    plain = outline_with([3, 4.5])
    assert Outline.from_json(json.loads(json.dumps(plain.as_json()))) == plain
    seeded = measure(
        counted_of(write_tsv(rows_of({"a": ["x"]})), per_user=2),
        Measurement.solve(epsilon=1, delta=1e-6, d=2, neighbours="replace"),
        epsilon=1, neighbours="replace", entropy=SeededEntropy(3),
    )  # fmt: skip
    assert not seeded.private
    assert Outline.from_json(seeded.as_json()) == seeded


HOSTILE = [
    (("format",), "murmurlog-outline-9", "not of the format"),
    (("kind",), 3, "kind is not a text"),
    (("kind",), "session", "--kind must be one of"),
    (("unit",), "row", "its guarantee is not that of a measured outline"),
    (("per_user",), 20.5, "per_user is not a whole number"),
    (("per_user",), True, "per_user is not a number"),
    (("per_user",), 21, "its noise gives delta"),
    (("per_user",), 10**9, "--per-user must lie between"),
    (("private",), None, "private is not true or false"),
    (("guarantee",), [], "guarantee is not an object"),
    (("guarantee",), None, "has no guarantee and is not marked as exact"),
    (("guarantee", "epsilon"), 0.5, "its noise gives delta"),
    (("guarantee", "epsilon"), -1, "no guarantee has epsilon"),
    (("guarantee", "epsilon"), math.nan, "epsilon is not a usable number"),
    (("guarantee", "delta"), 1e-9, "its noise gives delta"),
    (("guarantee", "delta"), 7, "no guarantee has epsilon"),
    (("guarantee", "neighbours"), "replace", "its noise gives delta"),
    (("guarantee", "neighbours"), "none", "unknown neighbour relation"),
    (("guarantee", "notion"), "pdp", "not that of a measured outline"),
    (("noise",), None, "not that of a measured outline"),
    (("noise", "sizes"), 1, "its noise gives delta"),
    (("noise", "popularity"), "much", "popularity is not a number"),
    (("noise", "popularity"), 0, "a scale of noise must lie between"),
    (("sizes",), {}, "sizes is not a list"),
    (("sizes",), [], "needs sizes and popularity"),
    (("sizes",), [[]], "a part of sizes is not an object"),
    (("sizes",), [{}] * 10_001, "sizes has more than 10000 parts"),
    (("sizes", 0, "units"), -1, "there are no -1.0 units"),
    (("sizes", 0, "units"), math.inf, "units is not a usable number"),
    (("sizes", 0, "units"), 10**400, "units is not a usable number"),
    (("sizes", 0, "most"), 0, "no size goes from 1 to 0"),
    (("sizes", 1, "least"), 1, "do not overlap"),
    (("popularity", 0, "items"), 0, "no run of ranks has 0 items"),
    (("popularity", 0, "users"), None, "users is not a number"),
    (("popularity", 60, "users"), 9e9, "does not rise"),
]


@pytest.mark.parametrize(("where", "value", "message"), HOSTILE)
def test_a_damaged_or_forged_outline_is_refused(made, where, value, message):
    data = copy.deepcopy(made.as_json())
    inner = data
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    with pytest.raises(InputError, match=re.escape(message)):
        Outline.from_json(data)


def test_a_file_that_is_no_outline_is_named(tmp_path):
    path = tmp_path / "o.json"
    deep = "[" * 200_000
    for content in (b"\xff", b"{", b"", deep.encode(), b'{"per_user": ' + b"9" * 5000 + b"}"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"o\.json is not an outline: it is not JSON"):
            read_outline(path)
    path.write_bytes(b" " * (1 << 23))
    with pytest.raises(InputError, match=r"o\.json is not an outline: it is too large"):
        read_outline(path)
    path.write_text("[]")
    with pytest.raises(
        InputError, match=r"o\.json is not a usable outline.* the file is not an object"
    ):
        read_outline(path)
    with pytest.raises(InputError, match=r"none\.json cannot be read"):
        read_outline(tmp_path / "none.json")


# --- the whole way ------------------------------------------------------------------------------


def test_noise_is_drawn_and_a_seed_gives_the_same(made):
    counted = Counted(
        kind="query", unit="user", per_user=20, sizes=(400,) * len(BINS), sums=(0,) * len(BLOCKS)
    )
    noise = Measurement.solve(epsilon=1, delta=1e-6, d=20)
    drawn, again = (measure(counted, noise, epsilon=1, entropy=SystemEntropy()) for _ in "12")
    assert drawn.sizes != again.sizes
    assert drawn.popularity != again.popularity
    seeded, same = (measure(counted, noise, epsilon=1, entropy=SeededEntropy(7)) for _ in "12")
    assert seeded == same
    assert not seeded.private
    assert made.outline.private
    assert made.outline.noise == noise
    assert 0 < made.outline.units < 900  # 400, and a standard error of 54


def test_all_that_is_published_follows_from_noisy_numbers(place, write_tsv, monkeypatch):
    """With the noisy numbers held fixed, two very different logs give the same words."""
    monkeypatch.setattr(Measurement, "sizes", lambda *_, **__: np.ones(len(BINS)))
    monkeypatch.setattr(Measurement, "popularity", lambda *_, **__: np.ones(len(BLOCKS)))
    other = write_tsv([{"user": "u", "time": "2026-05-05", "query": "alone", "url": "x.org"}])
    first, second = (
        survey(str(path), epsilon=1, max_broken=1).as_json() for path in (place / "log.tsv", other)
    )
    assert first.pop("release_id") != second.pop("release_id")
    assert first == second


def test_units_kinds_and_restrictions_are_those_of_a_release(place, monkeypatch):
    seen = []

    def watched(counted, *arguments, **more):
        seen.append(counted)
        return measure(counted, *arguments, **more)

    monkeypatch.setattr("murmurlog.publishing.planning.private_profile.measure", watched)
    source = str(place / "log.tsv")
    survey(source, epsilon=1, max_broken=1, kind="click", per_user=3, neighbours="replace")
    survey(source, epsilon=1, max_broken=1, unit="row", until="2026-01-01T10:30:00", screen=False)
    click, row = seen
    assert (click.kind, click.per_user, sum(click.sizes)) == ("click", 3, 400)
    early = sum(i % 60 < 30 for i in range(7919))
    assert sum(row.sizes) == row.sizes[0] == early + 6133
    with pytest.raises(UsageError, match="replace is proved for whole users only"):
        survey(source, epsilon=1, max_broken=1, unit="row", neighbours="replace")
    with pytest.raises(UsageError, match="--kind must be one of"):
        survey(source, epsilon=1, max_broken=1, kind="session")


def test_a_cap_refuses_before_a_row_is_read(place, tmp_path, monkeypatch):
    book = Ledger(tmp_path / "l.db")
    book.cap("web", epsilon=0.5, delta=1e-5)
    monkeypatch.setattr(
        "murmurlog.publishing.planning.private_profile.find",
        lambda *_, **__: pytest.fail("was looked at"),
    )
    with pytest.raises(Refused, match=r"costs epsilon 1 per user .* 0\.5 is left"):
        survey(
            str(place / "log.tsv"), epsilon=1, max_broken=1, ledger=tmp_path / "l.db", source_name="web", new_source=True,
            out=tmp_path / "o.json",
        )  # fmt: skip
    assert book.entries() == []
    assert not (tmp_path / "o.json").exists()


def test_it_is_reserved_before_noise_and_stays_booked_if_writing_fails(
    place, tmp_path, monkeypatch
):
    book, states = Ledger(tmp_path / "l.db"), []
    real = measuring.draw

    def watched(**more):
        states.extend(entry.state for entry in book.entries())
        return real(**more)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(measuring, "draw", watched)
    monkeypatch.setattr("murmurlog.publishing.planning.private_profile.settle", full)
    with pytest.raises(MurmurlogError, match="could not be written .* stays booked as"):
        survey(
            str(place / "log.tsv"), epsilon=1, max_broken=1, ledger=tmp_path / "l.db", source_name="web", new_source=True,
            out=tmp_path / "o.json",
        )  # fmt: skip
    assert set(states) == {"reserved"}
    (left,) = book.entries()
    assert (left.state, left.epsilon) == ("reserved", 1.0)
    assert "outline(d=20" in left.what
    assert [path.name for path in tmp_path.iterdir()] == ["l.db"]


@pytest.mark.parametrize("out", ["o.json", None])
def test_an_outline_whose_booking_cannot_be_committed_does_not_appear(
    place, tmp_path, monkeypatch, out
):
    book = tmp_path / "books" / "l.db"
    book.parent.mkdir()
    real = measuring.draw

    def draw(**more):
        book.unlink(missing_ok=True)
        return real(**more)

    monkeypatch.setattr(measuring, "draw", draw)
    with pytest.raises(Refused, match=r"(?s)is missing.*Nothing was published.*stays booked as"):
        survey(
            str(place / "log.tsv"), epsilon=1, max_broken=1, ledger=book, source_name="web", new_source=True,
            out=out and tmp_path / out,
        )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["books"]


@pytest.fixture
def command(monkeypatch, capsys, place, tmp_path):
    """Runs the command in this process; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["murmurlog", "profile", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            entry.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run


def test_the_command_prints_writes_and_books_nothing_exact(command, place, tmp_path):
    log = place / "log.tsv"
    code, out, err = command(
        *(log, "--epsilon", "ln(3)", "--ledger", "l.db", "--source", "web", "--new-source"),
        *("--out", "o.json", "--json", "--max-broken", "1"),
    )
    assert code == 0, err
    printed = json.loads(out)
    assert set(printed) == {
        *("format", "private", "guarantee", "unit", "neighbours", "kind", "per_user", "noise"),
        *("users", "items_per_user", "sizes", "popularity"),
        *("shape", "columns", "text", "release_id", "booked"),
    }
    assert json.loads((tmp_path / "o.json").read_text()) == printed
    assert read_outline(tmp_path / "o.json") == Outline.from_json(printed)
    assert printed["guarantee"]["epsilon"] == pytest.approx(math.log(3))
    assert set(printed["items_per_user"]["query"]) == {"mean", "p50", "p99"}
    assert printed["columns"]["query"] == "query"
    assert "booked" in err
    (booked,) = Ledger(tmp_path / "l.db").entries()
    assert (booked.state, booked.release_id) == ("committed", printed["release_id"])
    assert booked.epsilon == printed["guarantee"]["epsilon"]
    assert booked.delta == printed["guarantee"]["delta"] <= 1e-6

    code, text, words = command(log, "--epsilon", "1", "--max-broken", "1")
    assert code == 0
    assert "epsilon 1, delta 1e-06 per user, add-remove" in text
    assert "not booked" in words
    for everything in (out + err, text + words):
        numbers = set(re.findall(r"(?<![\w.])\d+(?![\w.])", everything))
        # usable, broken, screened, all rows, and what is left of each
        assert numbers.isdisjoint({"7919", "5417", "6133", "19469", "14052", "11550"})
        assert "broken" not in everything
        assert "query 1" not in everything


def test_without_epsilon_it_is_exact_also_where_releases_have_one(command, place, monkeypatch):
    """The numbers that the private profile must not show are there; variables spend nothing."""
    monkeypatch.setenv("MURMURLOG_EPSILON", "1")
    monkeypatch.setenv("MURMURLOG_LEDGER", "l.db")
    code, out, err = command(place / "log.tsv", "--json")
    assert code == 0, err
    assert "for your eyes only" in err
    found = json.loads(out)
    assert (found["rows"], found["broken"]) == (14052, {"no user": 5417})
    assert found["screened"]["email"] == 6133


def test_the_command_refuses_what_it_cannot_do(command, place, tmp_path):
    log = place / "log.tsv"
    (tmp_path / "there.json").write_text("mine")
    for arguments, code, message in (
        (("--out", "o.json"), 2, "--out is for a private profile"),
        (("--ledger", "l.db"), 2, "--ledger is for a private profile"),
        (("--unit", "user"), 2, "--unit is for a private profile"),
        (("--no-screen",), 2, "--screen is for a private profile"),
        (("--epsilon", "0"), 2, "epsilon must be a positive number"),
        (("--epsilon", "1", "--delta", "1"), 2, "delta must lie between 0 and 1"),
        (("--epsilon", "1", "--per-user", "0"), 2, "--per-user must lie between"),
        (("--epsilon", "1", "--kind", "log"), 2, "--kind must be one of"),
        (("--epsilon", "1", "--unit", "person"), 2, "unknown unit"),
        (("--epsilon", "1", "--ledger", "l.db"), 2, "--ledger needs --source"),
        (("--epsilon", "1", "--source", "web"), 2, "--source names an account"),
        (("--new-source",), 2, "--new-source is for a private profile"),
        (("--epsilon", "1", "--out", "there.json"), 2, "exists"),
        (("--epsilon", "1", "--out", "no/o.json"), 2, "there is no folder"),
        (("--epsilon", "1", "--bound", "last"), 2, "--bound must be first or random"),
    ):
        found, out, err = command(log, *arguments)
        assert (found, out) == (code, ""), arguments
        assert message in err
    assert (tmp_path / "there.json").read_text() == "mine"
    assert not (tmp_path / "l.db").exists()


def test_a_guarantee_without_noise_cannot_be_read_back():
    claimed = Outline(
        kind="query", unit="user", per_user=1, sizes=(Size(least=1, most=1, units=1),),
        popularity=(Ranks(items=1, users=1),), guarantee=Guarantee(epsilon=1, delta=1e-6),
    )  # fmt: skip
    with pytest.raises(InputError, match="not that of a measured outline"):
        Outline.from_json(claimed.as_json())

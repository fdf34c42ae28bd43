"""Several tables under one budget: one account of Gaussian noise, and bounding among what is published."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from laws import SURE, mass

import murmurlog
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, Sessions, SessionTree, Threshold, View
from murmurlog.privacy import (
    Guarantee,
    Loss,
    delta_of_losses,
    delta_of_rounds,
    gaussian_delta,
    mu_of,
)
from murmurlog.privacy.sampler import SeededEntropy, sampler_delta
from murmurlog.publishing.plan import plan_tables, total_of

RELATIONS = ("add-remove", "replace")
TABLES = ("query", "click", "pair")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_mu_is_the_largest_that_keeps_delta(epsilon, delta):
    mu = mu_of(epsilon=epsilon, delta=delta)
    assert gaussian_delta(epsilon=epsilon, mu=mu) <= delta
    assert gaussian_delta(epsilon=epsilon, mu=mu * 1.0001) > delta


def law(made, c, base):
    """The exact law of one item: dropped, or published with a value."""
    T, s = made.T, made.scale
    shown = np.arange(T, T + int(12 * s) + 9)
    if base >= SURE:
        shown = np.arange(SURE - int(9 * s) - 9, SURE + int(9 * s) + 11)
    if c == 0:
        return np.concatenate([[1.0], np.zeros(len(shown))])
    values = mass(made.noise, s, shown - c)
    return np.concatenate([[max(0.0, 1 - values.sum())], values])


def account(parts, neighbours="add-remove", epsilon=1.5):
    stated = [each.guarantee(epsilon=epsilon, neighbours=neighbours) for each in parts]
    return total_of(list(zip(parts, stated, strict=True)), epsilon)


def hockey_stick(P, Q, epsilon):
    return float(np.maximum(0.0, P - math.exp(epsilon) * Q).sum())


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_account_covers_the_exact_law_of_two_tables(neighbours):
    """d = 1 in each of two tables: the joint law of both items, summed."""
    parts = [
        Threshold(noise="gaussian", d=1, scale=2.0, T=12),
        Threshold(noise="gaussian", d=1, scale=3.0, T=17),
    ]
    claimed = account(parts, neighbours)
    found = 0.0
    for bases in itertools.product((0, 1, SURE), repeat=2):
        with_, without = [
            np.outer(*(law(m, b + more, b) for m, b in zip(parts, bases, strict=True))).ravel()
            for more in (1, 0)
        ]
        found = max(found, hockey_stick(with_, without, 1.5), hockey_stick(without, with_, 1.5))
    if neighbours == "replace":  # one user's items in place of another's, in both tables
        for base in (0, SURE):
            laws = [[law(m, base + more, base) for m in parts for more in pair] for pair in
                    ((1, 0), (0, 1))]  # fmt: skip
            # Two items a table, only their most telling statistic: the sum over items of shifts.
            # Item by item is enough to bound from below: take one table's pair of items.
            P, Q = (np.outer(one[0], one[1]).ravel() for one in laws)
            found = max(found, hockey_stick(P, Q, 1.5))
    assert found <= claimed.delta
    if neighbours == "add-remove":
        assert found > claimed.delta / 3  # the account adds a chance and a curve: loose, not wild


def test_half_the_noise_would_be_caught():
    claimed = account(
        [Threshold(noise="gaussian", d=1, scale=s, T=t) for s, t in ((2.0, 12), (3.0, 17))]
    )
    halved = [Threshold(noise="gaussian", d=1, scale=s, T=t) for s, t in ((1.0, 12), (1.5, 17))]
    with_, without = [
        np.outer(*(law(m, SURE + more, SURE) for m in halved)).ravel() for more in (1, 0)
    ]
    assert hockey_stick(with_, without, 1.5) > 2 * claimed.delta


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_planning_together_needs_far_lower_thresholds(neighbours):
    bounds = {"query": 20, "click": 10, "pair": 10}
    asked = {"epsilon": 1.0, "delta": 1e-6, "per_user": bounds, "neighbours": neighbours}
    together, total = plan_tables(TABLES, mechanism="threshold", **asked)
    assert total.epsilon == 1.0
    assert total.delta <= 1e-6
    for table, plan in together.items():
        alone = Threshold.solve(
            epsilon=1 / 3, delta=1e-6 / 3, d=bounds[table], neighbours=neighbours, noise="gaussian"
        )
        assert plan.mechanism.T < 0.7 * alone.T
    assert math.fsum(p.guarantee.epsilon for p in together.values()) > 1.5


@pytest.mark.slow
def test_geometric_noise_joins_the_account_by_its_loss_distribution():
    plans, total = plan_tables(TABLES, epsilon=1.0, delta=1e-6, noise="geometric")
    assert total.epsilon == 1.0
    assert total.delta <= 1e-6
    assert math.fsum(p.guarantee.epsilon for p in plans.values()) > 1.05


def test_letters_add_up_as_they_are():
    plans, total = plan_tables(TABLES, letters={"T": "60", "b": "5"}, per_user={"query": 5})
    assert total.epsilon == pytest.approx(math.fsum(p.guarantee.epsilon for p in plans.values()))


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_what_is_known_by_its_guarantee_alone_joins_the_account(neighbours):
    """rounds for queries, ZEALOUS for clicks: (epsilon, delta) is all that is known of the second."""
    plans, total = plan_tables(
        TABLES, mechanism={"click": "zealous"}, epsilon=1.0, delta=1e-6, neighbours=neighbours
    )
    assert [p.mechanism.parameters()["per_user"] for p in plans.values()] == [100, 10, 100]
    assert total.epsilon == 1.0
    assert total.delta <= 1e-6
    assert math.fsum(p.guarantee.epsilon for p in plans.values()) > 1.1


@pytest.mark.parametrize("parts", [(0.3,), (0.3, 0.4), (0.2, 0.2, 0.2)])
def test_pure_parts_compose_as_randomised_responses(parts):
    """The exact curve of independent randomised responses, by enumeration."""
    losses = [Loss.of(Guarantee(epsilon=each, delta=1e-7)) for each in parts]
    for epsilon in (0.1, 0.35, math.fsum(parts)):
        exact = 0.0
        for signs in itertools.product((1, -1), repeat=len(parts)):
            loss = math.fsum(s * e for s, e in zip(signs, parts, strict=True))
            p = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, parts, strict=True))
            exact += p * max(0.0, 1 - math.exp(epsilon - loss))
        found = delta_of_losses(losses, epsilon=epsilon)
        assert exact <= found <= exact + 2e-4 + 4e-7  # the grid of the distributions is 1e-4


def test_geometric_draws_compose_as_their_exact_law():
    """Three draws of scale 2, each moved by one, beside the sum over all of their losses."""
    a = math.exp(-1 / 2.0)
    middle = (1 - a) / (1 + a)
    # The loss of one draw is +-1/2; between them there is no value: P(x) is at 0, Q's at 1.
    up = middle / (1 - a)  # P(x <= 0) for noise around 0
    exact = 0.0
    for signs in itertools.product((1, -1), repeat=3):
        p = math.prod(up if s > 0 else 1 - up for s in signs)
        exact += p * max(0.0, 1 - math.exp(0.8 - 0.5 * sum(signs)))
    found = delta_of_losses([Loss(keys=0.0, draws=((2.0, 3),))], epsilon=0.8)
    assert exact <= found <= exact + 5e-4
    assert delta_of_losses([Loss(keys=1e-7, draws=((2.0, 3),))], epsilon=1.5) == 1e-7


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_mixture_with_little_noise_would_be_caught(neighbours):
    """One Gaussian and one geometric item: the exact joint law stays within the account."""
    parts = [
        Threshold(noise="gaussian", d=1, scale=2.0, T=12),
        Threshold(noise="geometric", d=1, scale=2.0, T=25),
    ]
    claimed = account(parts, neighbours)
    halved = [
        Threshold(noise="gaussian", d=1, scale=1.0, T=12),
        Threshold(noise="geometric", d=1, scale=1.0, T=25),
    ]
    found = {}
    for name, used in (("real", parts), ("halved", halved)):
        found[name] = 0.0
        for bases in itertools.product((0, 1, SURE), repeat=2):
            with_, without = [
                np.outer(*(law(m, b + more, b) for m, b in zip(used, bases, strict=True))).ravel()
                for more in (1, 0)
            ]
            worst = max(hockey_stick(with_, without, 1.5), hockey_stick(without, with_, 1.5))
            found[name] = max(found[name], worst)
    assert found["real"] <= claimed.delta < found["halved"]


def test_losses_add_up_as_squares():
    one = Loss(mu=0.3, keys=1e-7)
    assert delta_of_losses([one] * 4, epsilon=1.0) == pytest.approx(
        gaussian_delta(epsilon=1.0, mu=0.6) + 4e-7
    )
    assert delta_of_losses([Loss(mu=0.0, keys=0.25)], epsilon=1.0) == 0.25
    with pytest.raises(murmurlog.errors.UsageError, match="no loss has mu"):
        Loss(mu=-1.0, keys=0.0)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", [Threshold, Sessions, SessionTree, Rounds])
def test_what_is_made_for_a_loss_costs_no_more(kind, neighbours):
    for mu, keys, d in itertools.product((0.05, 0.4), (1e-9, 1e-4), (1, 7)):
        made = kind.for_loss(Loss(mu=mu, keys=keys), d=d, neighbours=neighbours)
        cost = made.loss(neighbours=neighbours)
        assert cost.mu <= mu
        assert cost.keys <= keys * (1 + 1e-8)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("letters", [(1, 5, 0.0), (4, 20, 0.3), (3, 3, 0.9)])
def test_the_loss_of_rounds_covers_its_own_theorem(letters, neighbours):
    """By itself a schedule is proved more tightly; its loss must never be below that."""
    R, d, share = letters
    made = Rounds.for_loss(
        Loss(mu=0.4, keys=1e-5), d=d, neighbours=neighbours, rounds=R, count_share=share
    )
    for epsilon in (0.0, 0.5, 1.5, 4.0):
        proved = delta_of_rounds(made.schedule, epsilon=epsilon, neighbours=neighbours)
        assert proved <= delta_of_losses([made.loss(neighbours=neighbours)], epsilon=epsilon)


def test_four_tables_cost_half_of_their_sum():
    plans, total = plan_tables(("query", "click", "pair", "session"), epsilon=1.0, delta=1e-6)
    assert {type(p.mechanism) for p in plans.values()} == {Rounds, Sessions}
    assert (total.epsilon, total.delta <= 1e-6) == (1.0, True)
    assert math.fsum(p.guarantee.epsilon for p in plans.values()) > 1.9


def test_mechanisms_by_table():
    plans, _ = plan_tables(("query", "click"), mechanism={"click": "threshold"})
    assert [type(p.mechanism) for p in plans.values()] == [Rounds, Threshold]
    with pytest.raises(murmurlog.errors.UsageError, match="--mechanism names pair"):
        plan_tables(("query",), mechanism={"pair": "threshold"})
    with pytest.raises(murmurlog.errors.UsageError, match="threshold does not take it"):
        plan_tables(("query",), mechanism="threshold", options={"rounds": 3})
    some, _ = plan_tables(("query", "click"), mechanism={"click": "threshold"},
                          options={"rounds": 2})  # fmt: skip
    assert some["query"].mechanism.schedule.rounds == 2


@pytest.mark.slow
def test_a_forged_total_is_caught(tmp_path, write_tsv):
    import json

    rows = [
        {"user": f"u{i}", "time": "2026-01-01 00:00:00", "query": "weather", "url": "example.org"}
        for i in range(500)
    ]
    out = tmp_path / "out"
    murmurlog.release(str(write_tsv(rows)), out=out, tables=["query", "click"], epsilon=1.0)
    assert murmurlog.verify(out).ok
    path = out / "privacy.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    assert said["composition"].startswith("one account")
    said["guarantee"]["epsilon"] = 0.9
    path.write_text(json.dumps(said), encoding="utf-8")
    from murmurlog.auditing.certificate_checks import check_guarantee
    from murmurlog.auditing.check import CheckFailed
    from murmurlog.bundle.read import read_certificate

    with pytest.raises(CheckFailed, match="add up to"):
        check_guarantee(out, read_certificate(out))


# --- later tables on what is published ------------------------------------------------------------


def rows_of_user(user, *queries, start=0):
    return [
        {
            "user": user,
            "time": f"2026-01-01 00:{start + i:02}:00",
            "query": query,
            "url": f"{query.replace(' ', '-')}.org",
        }
        for i, query in enumerate(queries)
    ]


def item_rows(path, kind, engine, known, **more):
    log = read(find(str(path)), engine=engine, entropy=SeededEntropy(1))
    view = View(kind=kind, published={"query": pa.table({"query": pa.array(known, pa.string())})})
    finder, rows = view.finder(log, **more), []
    for found in log.partitions.results(finder):
        columns = [column.to_pylist() for column in found.columns(found.item)]
        rows += [tuple(map(str, row)) for row in zip(*columns, strict=True)]
    return sorted(rows)


def test_clicks_count_for_published_queries_only(write_tsv, engine):
    path = write_tsv(rows_of_user("a", "x", "secret", "y"))
    assert item_rows(path, "click", engine, ["x", "y"]) == [("x", "x.org"), ("y", "y.org")]


def test_both_queries_of_a_pair_must_be_published(write_tsv, engine):
    path = write_tsv(rows_of_user("a", "x", "y", "secret", "x"))
    assert item_rows(path, "pair", engine, ["x", "y"]) == [("x", "y")]


def test_sessions_keep_their_published_queries(write_tsv, engine):
    path = write_tsv(
        rows_of_user("a", "x", "secret", "y", "z", "x") + rows_of_user("b", "secret", "x")
    )
    assert item_rows(path, "session", engine, ["x", "y", "z"], longest=3) == [("['x', 'y', 'z']",)]


@pytest.mark.slow
def test_the_bound_is_spent_on_what_can_be_published(write_tsv, tmp_path):
    """Each user's first clicks are for queries of its own; only later ones are anybody's."""
    rows = []
    for i in range(400):
        rows += rows_of_user(f"u{i}", f"own {i} 1", f"own {i} 2", "weather")
    out = tmp_path / "out"
    done = murmurlog.release(
        str(write_tsv(rows)), out=out, tables=["click", "query"], epsilon=8, delta=1e-9,
        per_user={"query": 3, "click": 1},
    )  # fmt: skip
    assert list(done.rows) == ["click", "query"]
    assert done.rows == {"click": 1, "query": 1}
    assert murmurlog.verify(out).ok


def test_the_sampler_is_paid_for_once():
    parts = [Threshold(noise="gaussian", d=1, scale=s, T=100) for s in (2.0, 3.0)]
    total = account(parts, epsilon=1.0)
    assert total.delta > delta_of_losses(
        [p.loss(neighbours="add-remove") for p in parts], epsilon=1.0
    ) + 0.9 * sampler_delta(scale=3.0, epsilon=1.0)

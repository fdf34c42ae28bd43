"""Known numbers, computed once with 50-digit arithmetic, for every formula of murmurlog.privacy."""

import json
import math
from pathlib import Path

import pytest

from murmurlog.privacy import (
    advanced,
    compose,
    delta_of_threshold,
    group,
    hockey_stick,
    korolova,
    korolova_alpha,
    korolova_optimum,
    korolova_tight_optimum,
    laplace_selection_bias,
    noise_sd,
    optimal_selection,
    per_item,
    query_click,
    solve_threshold,
    survival,
    turning_point,
)
from murmurlog.privacy.guarantee import Guarantee

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
NOISE = {"lap": "laplace", "dlap": "geometric", "gauss": "gaussian"}
RELATION = {"addrm": "add-remove", "repl": "replace"}


def numbers(inputs):
    return {k: math.log(10) if v == "ln(10)" else v for k, v in inputs.items()}


def compute(name, x):
    family, *rest = name.split("/")
    if family == "lap_sf":
        return survival(noise="laplace", scale=x["b"], x=x["x"])
    if family == "dlap_sf":
        return survival(noise="geometric", scale=x["b"], x=x["t"])
    if family.startswith("H_"):
        scale = x.get("b", x.get("sigma"))
        noise = NOISE[family.removeprefix("H_")]
        return hockey_stick(noise=noise, epsilon=x["eps"], copies=x["j"], scale=scale)
    if family == "korolova":
        if rest[0] == "opt":
            return korolova_optimum(x["d"], x["eps"], x["delta"])
        if rest[0] == "opt_tight_multiplicity":
            return korolova_tight_optimum(x["d"], x["eps"], x["delta"])
        if rest[0] == "alpha":
            return korolova_alpha(x["b"], x["K"])
        return korolova(**x)
    if family == "thresh":
        return solve_threshold(
            noise=NOISE[rest[0]],
            epsilon=x["eps"],
            delta=x["delta"],
            d=x["d"],
            neighbours=RELATION[x["relation"]],
            method="closed",
        )
    if family == "turning_point":
        return turning_point(x["b"])
    if family == "delta_thresh":
        return delta_of_threshold(
            noise=NOISE[x["noise"]],
            epsilon=x["eps"],
            d=x["d"],
            scale=x["scale"],
            threshold=x["threshold"],
            neighbours=RELATION[x["relation"]],
            releases=x["releases"],
        )
    if family == "fresh_vs_single":
        single = solve_threshold(noise="laplace", epsilon=x["eps"], delta=x["delta"], d=x["d"])
        fresh = solve_threshold(noise="laplace", epsilon=x["eps"] / 2, delta=x["delta"], d=x["d"])
        sds = [noise_sd(noise="laplace", scale=b) for b in (single[0], fresh[0])]
        return [*single, sds[0], *fresh, sds[1]]
    if family == "single_draw_bias":
        return laplace_selection_bias(n=x["n"], K=x["K"], b=x["b"])
    if family == "query_click":
        return query_click(**x)
    if family == "group":
        return group(**x)
    if family == "opt_select":
        return optimal_selection(n=x["n"], epsilon=x["eps"], delta=x["delta"])
    if name == "compose/thresh/R=12":
        epsilon = x["R"] * x["d"] / x["b"]
        delta = delta_of_threshold(
            noise="laplace",
            epsilon=epsilon,
            d=x["d"],
            scale=x["b"],
            threshold=x["K"],
            releases=x["R"],
        )
        return epsilon, delta
    if family == "compose":
        one = Guarantee(epsilon=x["eps"], delta=x["delta"])
        basic = compose([one] * x["R"])
        more = advanced(epsilon=x["eps"], delta=x["delta"], releases=x["R"], slack=x["delta_prime"])
        return [basic.epsilon, basic.delta, *more]
    raise AssertionError(f"no formula for {name}")


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if not v["id"].startswith("gshm")], ids=lambda v: v["id"]
)
def test_formula_gives_the_known_number(vector):
    got = compute(vector["id"], numbers(vector["inputs"]))
    assert got == pytest.approx(vector["expected"], rel=1e-6)


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["id"].startswith("gshm")], ids=lambda v: v["id"]
)
def test_gaussian_search_finds_the_least_threshold(vector):
    x = numbers(vector["inputs"])
    sigma, K = solve_threshold(noise="gaussian", epsilon=x["eps"], delta=x["delta"], d=x["d"])
    _, _, best_K = vector["expected"]
    assert best_K * (1 + 1e-6) >= K
    assert pytest.approx(best_K, rel=1e-3) == K
    exact = delta_of_threshold(
        noise="gaussian", epsilon=x["eps"], d=x["d"], scale=sigma, threshold=K
    )
    assert exact <= x["delta"]


def test_every_family_of_vectors_is_there():
    families = {v["id"].split("/")[0] for v in VECTORS}
    assert families == {
        *("lap_sf", "dlap_sf", "korolova", "thresh", "turning_point", "H_lap", "H_dlap"),
        *("H_gauss", "delta_thresh", "gshm", "fresh_vs_single", "single_draw_bias"),
        *("query_click", "compose", "group", "opt_select"),
    }


@pytest.mark.parametrize(
    ("d", "b", "K"),
    [
        (1, 0.43, 5.70),
        (5, 2.17, 31.99),
        (10, 4.34, 66.99),
        (20, 8.69, 140.00),
        (40, 17.37, 292.04),
        (80, 34.74, 608.16),
        (160, 69.49, 1264.49),
    ],
)
def test_korolova_optimum_gives_the_numbers_printed_in_the_paper(d, b, K):
    got = korolova_optimum(d, math.log(10), 1e-5)
    assert [round(x, 2) for x in got] == [b, K]


def test_per_item_is_the_inverse_of_the_union():
    assert 1 - (1 - per_item(1e-5, 20)) ** 20 == pytest.approx(1e-5, rel=1e-9)

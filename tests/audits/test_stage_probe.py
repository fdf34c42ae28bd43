"""The noise of every stage is tested; the last round's, nine tenths of it, is caught."""

import pytest
from blind_twins import BLIND
from inspection import STAGES, inspect_totals, stage_setting
from stage_probe import probe_stages
from twins import TWINS

from murmurlog.mechanisms import parse
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.plan import plan

BROKEN = {twin.name: twin for twin in (*TWINS, *BLIND)}
OF_A_STAGE = (
    "synthetic histograms with half the noise",
    "rank measured per click",
)
OF_ROUNDS = (
    "last round's noise x 0.9",
    "memory with the wrong coefficients",
    "attention relative to the best item",
)


def probe(tmp_path, mechanism, table="query", groups=1500):
    return probe_stages(
        {table: mechanism}, folder=tmp_path, entropy=SeededEntropy(7), wanted=6000, groups=groups
    )


@pytest.fixture(scope="module")
def two_rounds():
    """Two rounds without counts: the quickest mechanism with a last round and a memory."""
    return plan(
        epsilon=8, delta=1e-2, per_user=2, options={"rounds": 2, "count_share": 0.0}
    ).mechanism


def test_honest_rounds_pass_and_the_power_is_stated(two_rounds, tmp_path):
    made = probe(tmp_path, two_rounds)
    assert made.faults == []
    assert [each.stage for each in made.power] == ["round 1", "round 2"]
    for each in made.power:
        assert each.draws >= 6000
        assert each.smallest < 0.08
        assert each.as_json()["smallest_deviation_at_99_percent"] == round(each.smallest, 4)


@pytest.mark.parametrize("name", OF_ROUNDS)
def test_a_fault_of_a_single_round_is_caught(name, two_rounds, tmp_path):
    with BROKEN[name].broken():
        found = probe(tmp_path, two_rounds).faults
    assert found
    assert all("round" in what for what in found)


@pytest.mark.parametrize("name", OF_A_STAGE)
def test_a_fault_of_a_synthetic_histogram_is_caught(name, tmp_path):
    setting = stage_setting("synthetic", noise=None)
    made = plan(
        mechanism="synthetic", epsilon=8, delta=1e-2, per_user=2, options=setting.options
    ).mechanism
    assert probe(tmp_path, made, "log", groups=100).faults == []
    with BROKEN[name].broken():
        found = probe(tmp_path, made, "log", groups=100).faults
    assert any("histogram" in what for what in found)


def test_the_noise_of_left_out_is_tested(tmp_path):
    made = probe(tmp_path, parse("left-out(d=2, sigma=30.5)"), "left_out", groups=100)
    assert made.faults == []
    assert [each.stage for each in made.power] == ["bins"]


def test_a_scale_that_is_not_printed_is_caught(tmp_path):
    honest = parse("threshold(noise=gaussian, d=2, scale=1.5, T=8)")
    assert probe(tmp_path, honest, groups=300).faults == []
    with BROKEN["noise halved"].broken():
        first, second = probe(tmp_path, honest, groups=300).faults
    assert "is not gaussian noise of scale 1.5" in first  # by what is published
    assert "which no stage of the printed mechanisms has" in second  # by what is drawn


@pytest.mark.parametrize("name", ["second table's loss not counted", "left_out with a wrong sensitivity"])  # fmt: skip
def test_a_total_that_leaves_something_out_is_caught(name):
    setting = stage_setting(BROKEN[name].mechanism, noise=None)
    assert inspect_totals(setting) == []
    with BROKEN[name].broken():
        assert "is stated" in inspect_totals(setting)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BROKEN if name.startswith("pair table's noise")])
def test_less_noise_in_the_pair_table_alone_is_caught(name):
    made, _ = BROKEN[name].audited(only=lambda setting: setting.name == STAGES)
    assert made.violations
    assert all("pair" in what for what in made.violations)


def test_noise_that_is_drawn_again_is_caught(tmp_path):
    honest = parse("korolova(d=2, b=0.5, T=3, b_q=0.5)")
    assert probe(tmp_path, honest, groups=300).faults == []
    with BROKEN["korolova: counts below T are drawn again"].broken():
        (found,) = probe(tmp_path, honest, groups=300).faults
    assert "draws where the printed mechanism makes" in found

"""The law of every stage follows from a printed text, and less noise than that is seen."""

import numpy as np
import pytest
from draw_record import check_draws, recorded_draws
from noise_stages import STEPS, Law, parameters_of, stages

from murmurlog.privacy.sampler import SeededEntropy, draw, draw_tails

ROUNDS = (
    "rounds(d=2, s=4.0_3.0, own=120_182, past=108, T=900000000_1200000000, C=3.0, reach=1.3, focus=0.3, "
    "sigma1=7.9, sigma_h=34.5)"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("threshold(noise=gaussian, d=10, scale=13.3, T=71)", {"selection": ("gaussian", 13.3)}),
        ("zealous(m=10, lam=10.0001, tau=1, T=156)", {"selection": ("geometric", 10.0001)}),
        ("korolova(d=10, b=20.5, T=310, b_q=21.5, count=users)",
         {"selection": ("geometric", 20.5), "counts": ("geometric", 21.5)}),
        ("left-out(d=10, sigma=524.608)", {"bins": ("gaussian", 524.608)}),
        ("synthetic(noise=gaussian, d=10, scale=14.9, T=79, b_sizes=9.5, b_rank=7.5)",
         {"selection": ("gaussian", 14.9), "histogram of sizes": ("geometric", 9.5),
          "histogram of rank": ("geometric", 7.5)}),
        ("pool(d=5, b=5.0, N=7, T=20)", {"selection": ("geometric", 5.0)}),
    ],
)  # fmt: skip
def test_a_text_names_the_law_of_every_stage(text, found):
    made = {stage.name: (law.noise, law.scale) for stage in stages("t", text) for law in stage.laws}
    assert made == found


def test_rounds_have_a_stage_each_and_counts_one_scale_for_each_d2():
    made = {stage.name: stage.laws for stage in stages("query", ROUNDS)}
    assert [*made] == ["round 1", "round 2", "histogram", "counts"]
    assert made["round 2"] == (Law(noise="gaussian", scale=3.0 * STEPS),)
    assert made["counts"][0].scale == pytest.approx(STEPS * 2**0.5 * 7.9)
    given = {
        stage.name: stage.laws for stage in stages("q", ROUNDS.replace("_h=34.5", "_h=1, d2=9"))
    }
    assert [law.scale for law in given["counts"]] == [STEPS * 3 * 7.9]


def test_a_text_that_is_no_mechanism_is_an_error():
    with pytest.raises(ValueError, match="not the text of a mechanism"):
        parameters_of("Threshold d=3")


@pytest.mark.parametrize(
    ("noise", "scale"),
    [
        ("geometric", 1.0),
        ("geometric", 20.0),
        ("geometric", 400.0),
        ("gaussian", 0.8),
        ("gaussian", 13.3),
        ("gaussian", 7.0 * STEPS),
    ],
)
def test_nine_tenths_of_the_noise_are_seen_and_honest_noise_is_not(noise, scale):
    law, entropy = Law(noise=noise, scale=scale), SeededEntropy(3)
    honest = [
        law.p_value(draw(noise=noise, scale=scale, count=8000, entropy=entropy)) for _ in range(20)
    ]
    assert min(honest) > 1e-4
    for part in (0.9, 1.11):
        wrong = draw(noise=noise, scale=part * scale, count=8000, entropy=entropy)
        assert law.p_value(wrong) < 1e-8
    assert law.smallest_deviation(8000) < 0.1 < law.smallest_deviation(1000)


def test_noise_of_the_right_spread_and_the_wrong_shape_is_seen():
    law = Law(noise="gaussian", scale=1000.0)
    even = np.linspace(-1, 1, 8000) * 1000 * 3**0.5
    assert law.p_value(np.rint(even).astype(np.int64)) < 1e-8


@pytest.mark.parametrize("noise", ["geometric", "gaussian", "tail"])
@pytest.mark.parametrize("scale", [40.0, 51.8461, 60.2163, 97.3, 1000.0])
def test_the_chances_of_cells_are_exact_where_a_cell_has_few_numbers(noise, scale):
    """With 400,000 draws a chance that is off by a part of a number would be seen."""
    law = Law(noise=noise, scale=scale)
    k = np.arange(-3, 300)
    whole = law.below(np.array([300]))[0] - law.below(np.array([-3]))[0]
    inside = k[k >= 0] if noise == "tail" else k
    assert law.mass(inside).sum() == pytest.approx(whole, rel=1e-9)
    entropy = SeededEntropy(6)
    if noise == "tail":
        drawn = draw_tails(scale=scale, T=0, count=400_000, entropy=entropy)
    else:
        drawn = draw(noise=noise, scale=scale, count=400_000, entropy=entropy)
    assert law.p_value(drawn) > 1e-4


def test_draws_beyond_a_threshold_have_a_law_of_their_own():
    law, entropy = Law(noise="tail", scale=5.0), SeededEntropy(4)
    assert law.p_value(draw_tails(scale=5.0, T=0, count=5000, entropy=entropy)) > 1e-4
    assert law.p_value(draw_tails(scale=4.4, T=0, count=5000, entropy=entropy)) < 1e-8


def test_the_smallest_deviation_is_seen_with_99_percent():
    """A deviation of that size, many times: missed about once in a hundred."""
    law, entropy = Law(noise="gaussian", scale=100.0), SeededEntropy(5)
    part = 1 - law.smallest_deviation(3000)
    values = draw(noise="gaussian", scale=part * 100.0, count=300 * 3000, entropy=entropy)
    missed = sum(law.p_value(some) >= 1e-8 for some in values.reshape(300, 3000))
    assert missed <= 12


def test_draws_of_a_scale_that_no_text_has_are_a_fault():
    known = stages("query", "threshold(noise=geometric, d=1, scale=2.0, T=20)")
    with recorded_draws() as draws:
        draw(noise="geometric", scale=2.0, count=4000, entropy=SeededEntropy(1))
    assert check_draws(known, draws) == []
    with recorded_draws() as draws:
        draw(noise="geometric", scale=1.8, count=7, entropy=SeededEntropy(1))
        draw(noise="gaussian", scale=2.0, count=5, entropy=SeededEntropy(1))
    first, second = check_draws(known, draws)
    assert first.startswith("7 draws of geometric noise of scale 1.8, which no stage")
    assert second.startswith("5 draws of gaussian noise of scale 2, which no stage")
    before = len(draws)
    draw(noise="gaussian", scale=2.0, count=5, entropy=SeededEntropy(1))
    assert len(draws) == before  # nothing is recorded afterwards

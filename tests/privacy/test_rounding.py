"""The numbers of a guarantee as texts: never smaller than the numbers themselves."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.privacy import Guarantee
from murmurlog.privacy.rounding import chance, guess, odds, round_up_text


@given(
    epsilon=st.floats(0, 19.9),
    delta=st.floats(1e-12, 1) | st.just(0.0),
)
@settings(max_examples=100, deadline=None)
def test_rounding_never_makes_a_loss_smaller(epsilon, delta):
    g = Guarantee(epsilon=epsilon, delta=delta)
    slack = 1 - 1e-9
    assert float(odds(g).replace(",", "")) >= math.exp(epsilon) * slack
    exact = (math.exp(epsilon) + delta) / (math.exp(epsilon) + 1)
    assert float(guess(g).rstrip(" %")) / 100 >= exact * slack
    assert float(guess(g).rstrip(" %")) / 100 <= exact + 0.002
    assert float(round_up_text(delta)) >= delta
    assert float(round_up_text(epsilon, 6)) >= epsilon
    if delta:
        assert 1 / int(chance(delta).removeprefix("1 in ").replace(",", "")) >= delta * slack


def test_odds_and_guesses_by_hand():
    g = Guarantee(epsilon=math.log(3), delta=0.0)
    assert odds(g) == "3.00"
    assert guess(g) == "75.0 %"
    assert odds(Guarantee(epsilon=40.0, delta=0.0)) == "e^40"
    assert guess(Guarantee(epsilon=40.0, delta=0.0)) == "100 %"
    assert chance(9.19e-6) == "1 in 100,000"
    assert chance(0.0) == "never"
    assert round_up_text(9.191e-6) == "9.2e-06"
    assert round_up_text(1e-6) == "1e-06"

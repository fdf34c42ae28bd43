"""What Arrow rules out, Python would not find: the relaxed expression matches wherever the original does."""

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.logs.prefilter import relax
from murmurlog.logs.screen import Pattern, Screen, load

ATOMS = [
    "a", "b", r"\d", r"\w", r"\W", r"\s", r"\D", r"\S", ".", "[ab1]", "[^a1]", "[0-9 .-]", "é", "[é]",
    "(?=a)", "(?!1)", "(?<!b)", "(?<=1)", r"\b", "^", "$", "(a|b1)", "(?:1|)", "(?>a|ab)", "[^\\W\\d_]",
]  # fmt: skip
REPEATS = ["", "*", "+", "?", "{2}", "{1,3}", "{0,2}?", "++"]


@st.composite
def expressions(draw):
    parts = draw(st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)), max_size=6))
    fixed = ("(?=", "(?!", "(?<", r"\b", "^", "$")
    text = "".join(atom + ("" if atom.startswith(fixed) else many) for atom, many in parts)
    text = f"(a|1){text}\\1" if draw(st.booleans()) else text
    return f"{text}|b{{3}}" if draw(st.booleans()) else text


def matches(relaxed, text):
    return pc.match_substring_regex(pa.array([text]), relaxed)[0].as_py()


@settings(deadline=None, max_examples=300)
@given(expression=expressions(), texts=st.lists(st.text("ab1 .-_\n\x1cZ", max_size=8), max_size=8))
def test_a_relaxed_expression_matches_wherever_the_original_does(expression, texts):
    original = re.compile(expression)
    relaxed = relax([original])
    for text in texts:
        assert matches(relaxed, text) or not original.search(text), (expression, relaxed, text)


def test_most_queries_with_numbers_are_ruled_out():
    queries = [f"windows {n}" for n in range(90, 120)] + [
        "route 66",
        "7 11 near me",
        "call 202-555-0143",
    ]
    assert load().suspects(pa.array(queries)).to_pylist() == [32]


def test_other_scripts_are_left_to_python():
    """An Arabic digit is one for Python, and a joiner is removed before it looks."""
    assert load().suspects(pa.array(["a 1 é", "1 \u0661", "é"])).to_pylist() == [0, 1]


@pytest.mark.parametrize("expression", ["(?i)a", r"(a)?(?(1)b|c)", "(?x) a", "(?a:\\w)"])
def test_what_is_not_understood_is_not_relaxed(expression):
    assert relax([re.compile(expression)]) is None


def test_what_arrow_cannot_count_is_left_to_python():
    many = re.compile("(?:(?:a{90}){90}){90}")
    screen = Screen(patterns=(Pattern(name="a", expressions=(many,), check=None, needs=None),))
    assert screen.prefilters is None
    assert screen.suspects(pa.array(["b"])).to_pylist() == [0]

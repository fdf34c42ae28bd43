"""Keys of texts equal a plain model, whatever stands beside a text; small lanes collide as proved."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_keys import PlainKeys

from murmurlog.logs import text_keys
from murmurlog.logs.text_keys import TextKeys
from murmurlog.privacy.sampler import SeededEntropy

TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "a\0", "a\0\0\0", "ä" * 7_000, "日本", "\0"]
PLAIN = PlainKeys(5)


def keys_of(seed=5):
    return TextKeys(SeededEntropy(seed).stream("keys"))


def rows_of(keys):
    return [tuple(key) for key in keys.tolist()]


def test_keys_equal_a_plain_model():
    assert rows_of(keys_of().texts(pa.array(TEXTS))) == [PLAIN.text(text) for text in TEXTS]


@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=8), st.randoms())
def test_the_key_of_a_text_does_not_depend_on_what_stands_beside_it(texts, random):
    keys = keys_of()
    alone = {text: rows_of(keys.texts(pa.array([text], pa.string())))[0] for text in texts}
    shuffled = random.sample(texts, len(texts))
    column = pa.array(["x" * 9, *shuffled, "y"], pa.string()).slice(1, len(texts))
    assert rows_of(keys.texts(column)) == [alone[text] for text in shuffled]


def test_a_null_over_a_slot_that_is_not_empty_is_a_null():
    offsets, data = pa.py_buffer(np.array([0, 3, 6], np.int64)), pa.py_buffer(b"abcdef")
    bitmap = pa.py_buffer(bytes([0b10]))
    texts = pa.Array.from_buffers(pa.large_string(), 2, [bitmap, offsets, data])
    assert rows_of(keys_of().texts(texts)) == [(0, 0), PLAIN.text("def")]


def test_batches_do_not_matter(monkeypatch):
    texts = pa.array([f"text {n}" * (n % 7) for n in range(100)])
    together = keys_of().texts(texts)
    monkeypatch.setattr(text_keys, "TEXTS_AT_ONCE", 7)
    assert (keys_of().texts(texts) == together).all()


def test_combinations_and_lists_have_keys_of_their_parts():
    columns = [["a", "a", "b"], ["x", "y", "x"]]
    parts = [[PLAIN.text(text) for text in column] for column in columns]
    expected = [PLAIN.combination(pair) for pair in zip(*parts, strict=True)]
    assert rows_of(keys_of().columns([pa.array(column) for column in columns])) == expected
    lists = [["a"], ["a", "a"], ["a", ""], ["", "a"], ["aa"], [], ["b", "a"], ["a", "b"]]
    expected = [PLAIN.sequence([PLAIN.text(text) for text in members]) for members in lists]
    assert len(set(expected)) == len(lists)
    assert rows_of(keys_of().columns([pa.array(lists, pa.list_(pa.string()))])) == expected


def test_whole_numbers_have_keys_of_their_own():
    numbers = np.array([0, 1, -1, 2**63 - 1, -(2**63)])
    assert rows_of(keys_of().numbers(numbers)) == [PLAIN.number(n) for n in numbers.tolist()]


def test_keys_of_a_seed_are_the_same_and_differ_between_seeds():
    texts = pa.array(["a", "b"])
    assert (keys_of(1).texts(texts) == keys_of(1).texts(texts)).all()
    assert (keys_of(1).texts(texts) != keys_of(2).texts(texts)).all()


# K1 in small: 16-bit arithmetic, 8-bit words, the upper half is the result


def agreements(*, difference, rest):
    """Of all numbers m and m_1: how often X and X - (m_1 difference + rest) have one upper half.

    Counted exactly: the sum X of one text is uniform, by m; D = m_1 difference + rest is counted by value.
    """
    size, half = 1 << 16, 1 << 8
    shift = np.bincount((np.arange(size) * difference + rest) % size, minlength=size)
    distance = np.minimum(np.arange(size), size - np.arange(size))
    return int((shift * np.maximum(0, half - distance) * half).sum())  # X and X - t agree so often


def test_shifted_sums_agree_as_often_as_the_proof_says():
    x = np.arange(1 << 16)
    for t in (0, 1, 77, 255, 256, 40_000, 65_300, 65_535):
        distance = min(t, (1 << 16) - t)
        assert (((x - t) % (1 << 16) >> 8) == (x >> 8)).sum() == max(0, 256 - distance) * 256


@pytest.mark.parametrize("rest", [0, 1, 12_345])
def test_two_texts_agree_in_a_lane_with_exactly_its_probability(rest):
    """K1: 2^-8 of the 2^32 pairs (m, m_1), for every difference of two words, whatever the other words give."""
    for difference in range(1, 1 << 8):
        for signed in (difference, -difference):
            assert agreements(difference=signed, rest=rest) == 1 << 32 - 8


def test_lanes_with_numbers_of_their_own_agree_together_with_the_product():
    """K2 in smaller: 6-bit arithmetic, 3-bit words, two lanes, all 2^24 numbers."""
    m, first = np.divmod(np.arange(1 << 12), 1 << 6)
    for difference in (1, 4, 7):
        one = ((m + first * difference) % 64 >> 3) == (m >> 3)
        both = one[:, None] & one[None, :]
        assert both.sum() == 1 << 24 - 6

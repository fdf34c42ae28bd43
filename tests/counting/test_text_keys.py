"""Keys of texts equal a plain model, whatever stands beside a text; small lanes collide as proved."""

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from murmurlog.counting import text_keys
from murmurlog.counting.text_keys import TextKeys, keys_of_seed
from murmurlog.privacy.sampler import SeededEntropy


def plain_numbers(kind, count):
    data = SeededEntropy(5).stream(kind).bytes(8 * 4 * count)
    return np.frombuffer(data, np.uint64).reshape(count, 4).tolist()


def plain_hash(words, numbers):
    """The two words of the key, by the definition."""
    lanes = []
    for lane in range(4):
        total = numbers[0][lane] + sum(numbers[i + 1][lane] * w for i, w in enumerate(words))
        lanes.append(total % 2**64 >> 32)
    return [lanes[0] << 32 | lanes[1], lanes[2] << 32 | lanes[3]]


def plain_key(text):
    data = text.encode()
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    return plain_hash([len(data), *words], plain_numbers("texts", len(words) + 2))


TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "a\0", "a\0\0\0", "ä" * 40_000, "日本", "\0"]


def test_keys_equal_a_plain_model():
    keys = TextKeys(SeededEntropy(5)).texts(pa.array(TEXTS)).tolist()
    assert keys == [plain_key(text) for text in TEXTS]


@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=8), st.randoms())
def test_the_key_of_a_text_does_not_depend_on_what_stands_beside_it(texts, random):
    keys = TextKeys(SeededEntropy(5))
    alone = {text: keys.texts(pa.array([text], pa.string())).tolist()[0] for text in texts}
    shuffled = random.sample(texts, len(texts))
    column = pa.array(["x" * 9, *shuffled, "y"], pa.string()).slice(1, len(texts))
    assert keys.texts(column).tolist() == [alone[text] for text in shuffled]


def test_a_null_over_a_slot_that_is_not_empty_is_a_null():
    offsets, data = pa.py_buffer(np.array([0, 3, 6], np.int64)), pa.py_buffer(b"abcdef")
    bitmap = pa.py_buffer(bytes([0b10]))
    texts = pa.Array.from_buffers(pa.large_string(), 2, [bitmap, offsets, data])
    keys = TextKeys(SeededEntropy(5))
    assert keys.texts(texts).tolist() == keys.texts(pa.array([None, "def"], pa.string())).tolist()


def test_batches_do_not_matter(monkeypatch):
    texts = pa.array([f"text {n}" * (n % 7) for n in range(100)])
    together = TextKeys(SeededEntropy(5)).texts(texts)
    monkeypatch.setattr(text_keys, "TEXTS_AT_ONCE", 7)
    assert (TextKeys(SeededEntropy(5)).texts(texts) == together).all()


def test_items_of_several_columns_have_keys_of_their_parts():
    keys = TextKeys(SeededEntropy(5))
    columns = [pa.array(["a", "a", "b"]), pa.array(["x", None, "x"])]
    parts = [plain_key(text) for text in ("a", "x")]
    halves = [h for part in parts for h in (1, *(x for w in part for x in (w >> 32, w % 2**32)))]
    expected = plain_hash(halves, plain_numbers("items", 11))
    rows = keys.items(columns).tolist()
    assert rows[0] == expected
    assert len({tuple(row) for row in rows}) == 3


def test_lists_are_told_apart_by_their_members_and_lengths():
    lists = [["a"], ["a", "a"], ["a", ""], ["", "a"], ["aa"], [], ["b", "a"], ["a", "b"]]
    keys = TextKeys(SeededEntropy(5)).items([pa.array(lists, pa.list_(pa.string()))])
    assert len({tuple(row) for row in keys.tolist()}) == len(lists)


def test_keys_of_a_seed_are_the_same_for_all_streams_and_differ_between_seeds():
    texts = pa.array(["a", "b"])
    assert (keys_of_seed(1).texts(texts) == keys_of_seed(1).texts(texts)).all()
    assert (keys_of_seed(1).texts(texts) != keys_of_seed(2).texts(texts)).all()


def test_two_texts_agree_in_a_small_lane_with_exactly_its_probability():
    """The law in small: 6-bit arithmetic with 3-bit words and results, all numbers enumerated."""
    for difference in range(1, 8):
        equal = sum(
            (m + m1 * difference) % 64 >> 3 == m >> 3
            for m, m1 in itertools.product(range(64), repeat=2)
        )
        assert equal == 64 * 64 // 8

"""Texts that were chosen to collide under a hash without a key are told apart by keys with fresh numbers.

    python audits/attacks/chosen_texts.py [--size 2000]

A hash that starts from a fixed seed and mixes in eight bytes a step, h = mix(h ^ word), can be run backwards: for
any two first words there is a second one that makes the hashes equal. One user could so give a text the key of
another. Pairs of such texts, which cleaning does not change, are keyed with fresh numbers, `size` times; and a
log in which each is asked by as many users as the other is released. Every key must differ in both its words, and
both texts of a pair must be published with about their own users.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.shared import Finding, main, release
from murmurlog.bundle.keys import normalise
from murmurlog.logs.text_keys import TextKeys

Words = npt.NDArray[np.uint64]

SEED = np.uint64(0x9E3779B97F4A7C15)  # the fixed seed of the hash without a key
LENGTH = 16
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
PLAIN = np.isin(
    np.arange(256), np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789-_+=,;:/'.()", np.uint8)
)
PAIRS, USERS, TRIES = 5, 300, 4_000_000


def mix(words: Words) -> Words:
    """The finaliser of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def fixed_hash(text: str) -> int:
    """The hash without a key: of a text's length, then of its words."""
    state = np.array([SEED ^ np.uint64(LENGTH)])
    for word in np.frombuffer(text.encode(), "<u8"):
        state = mix(state ^ word)
    return int(state[0])


def chosen_pairs(entropy: np.random.Generator) -> list[tuple[str, str]]:
    """Different clean texts with equal hashes."""
    pairs: list[tuple[str, str]] = []
    while len(pairs) < PAIRS:
        one = entropy.choice(LETTERS, LENGTH)
        word, last = one.view("<u8")
        others = entropy.choice(LETTERS, (TRIES, 8))
        start = SEED ^ np.uint64(LENGTH)
        # The second word that leads from another first word to the same state.
        needed = mix(start ^ others.view("<u8")[:, 0]) ^ mix(np.array([start ^ word])) ^ last
        ends = needed.view(np.uint8).reshape(-1, 8)
        for place in np.flatnonzero(PLAIN[ends].all(axis=1)):
            text, other = (
                one.tobytes().decode(),
                (others[place].tobytes() + ends[place].tobytes()).decode(),
            )
            if text != other and normalise(other) == other:
                pairs.append((text, other))
                break
    return pairs


def attack(folder: Path, size: int) -> Iterator[Finding]:
    pairs = chosen_pairs(np.random.default_rng())
    if any(fixed_hash(one) != fixed_hash(other) for one, other in pairs):
        raise AssertionError("the texts do not collide under the hash without a key")
    texts = pa.array([text for pair in pairs for text in pair])
    equal = 0
    for _ in range(size):
        keys = TextKeys().texts(texts).reshape(PAIRS, 2, 2)
        equal += int((keys[:, 0] == keys[:, 1]).any(axis=1).sum())
    word = "BROKEN" if equal else "HOLDS"
    example = " and ".join(map(repr, pairs[0]))
    yield Finding(
        word=word,
        text=f"{PAIRS} pairs such as {example}: {equal} of {PAIRS * size} agree in a word of the key",
    )
    users = [f"u{n}" for n in range(USERS) for _ in texts]
    path = folder / "log.parquet"
    pq.write_table(pa.table({"user": users, "query": pa.array([*texts.to_pylist()] * USERS)}), path)
    done = release(path, "--epsilon", "8", "--delta", "1e-6", "--tables", "query", name="chosen")
    counts = [done.queries.get(text) for text in texts.to_pylist()]
    right = all(count is not None and abs(count - USERS) < USERS / 3 for count in counts)
    yield Finding(
        word="HOLDS" if right else "BROKEN",
        text=f"asked by {USERS} users each, published with {counts}"
        + f" {done.said}" * (not right),
    )


if __name__ == "__main__":
    sys.exit(main(attack, size=2_000, meaning="fresh keys"))

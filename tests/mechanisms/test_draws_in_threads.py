"""Ranges of keys are decided by several threads at once: every key has noise of its own."""

import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.logs.partitions import LocalPartitions, Sums
from murmurlog.logs.text_keys import KeyList, TextKeys
from murmurlog.logs.workspace import open_workspace
from murmurlog.mechanisms import Threshold
from murmurlog.mechanisms.rounds.select import Outcome, select
from murmurlog.privacy import sampler
from murmurlog.privacy.sampler import SeededEntropy, _exactly

KEYS, USERS, SCALE = 4_000, 50_000, 1e5


class Recorded:
    """The system's entropy, with a record of the words; other threads take theirs before they are used."""

    seeded = False

    def __init__(self):
        self.words, self.threads = [], set()

    def bytes(self, count):
        data = os.urandom(count)
        self.words += np.frombuffer(data, np.uint64).tolist()
        self.threads.add(threading.get_ident())
        time.sleep(0.002)
        return data

    def stream(self, *label):
        return self


def invert(noise, word):
    draw = _exactly(noise, SCALE, (word >> 1) << 64 | 1 << 63)
    return -draw if word & 1 else draw


def shards(workspace):
    keys = TextKeys(SeededEntropy(1)).numbers(np.arange(KEYS))
    keys = KeyList.of(keys).keys
    halves = [Sums(keys[n::2], np.full(KEYS // 2, USERS)) for n in range(2)]
    parts = LocalPartitions([workspace.keep(half) for half in halves], workspace, 16)
    return keys, parts.add_up(lambda sums: sums)


@pytest.fixture
def measurements(monkeypatch):
    """What `threshold` measured, before it corrects anything."""
    noisy = []
    draw = sampler.draw

    def record(**law):
        values = draw(**law)
        noisy.append((law["keys"], values))
        return values

    monkeypatch.setattr("murmurlog.mechanisms.threshold.draw", record)
    return noisy


def test_noise_of_rounds_is_a_word_of_its_own_for_every_key():
    entropy, measured = Recorded(), []

    def decide(k, z, remembered, pool):
        measured.extend((z - USERS).tolist())
        nobody = np.zeros(len(z), bool)
        return Outcome(nobody, nobody, z[:0], z[:0])

    with open_workspace(threads=4) as workspace:
        _, first = shards(workspace)
        candidates = SimpleNamespace(
            first=first, bounded=None, pools=(), text_keys=None, say=lambda _: None
        )
        select(candidates, scales=[SCALE], decide=decide, entropy=entropy)
    assert len(entropy.threads) > 1
    assert len({*entropy.words}) == len(measured) == KEYS
    assert sorted(measured) == sorted(invert("gaussian", word) for word in entropy.words)


def test_noise_of_threshold_is_a_word_of_its_own_for_every_key(measurements):
    entropy = Recorded()
    mechanism = Threshold(d=1, scale=SCALE, T=2)
    with open_workspace(threads=4) as workspace:
        keys, first = shards(workspace)
        tally = SimpleNamespace(
            map=first.map, per_user=1, kind="query", unit="user",
            table=lambda keys: pa.table({"query": [str(key) for key in keys[:, 0]]}),
        )  # fmt: skip
        mechanism.release(tally, entropy=entropy)
    drawn_for = np.concatenate([items for items, _ in measurements])
    assert np.array_equal(KeyList.of(drawn_for).keys, keys)  # each key once
    assert len(drawn_for) == KEYS
    noise = np.concatenate([values for _, values in measurements])
    assert len(entropy.threads) > 1
    assert sorted(noise.tolist()) == sorted(invert("geometric", word) for word in entropy.words)


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_seeded_noise_is_the_same_however_many_threads_draw(noise):
    tables = []
    for threads in (1, 4):
        with open_workspace(threads=threads) as workspace:
            _, first = shards(workspace)
            tally = SimpleNamespace(
                map=first.map, per_user=1, kind="query", unit="user",
                table=lambda keys: pa.table({"query": [str(key) for key in keys[:, 0]]}),
            )  # fmt: skip
            mechanism = Threshold(noise=noise, d=1, scale=SCALE, T=2)
            tables.append(mechanism.release(tally, entropy=SeededEntropy(3)))
    assert tables[0].num_rows > KEYS / 4
    assert tables[0].equals(tables[1])

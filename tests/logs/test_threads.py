"""What threads share while they work on a log: slowed down, so that every one of them sees the others' steps."""

import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from log_readers import rows_of_partition

from murmurlog.logs.cleaning import Cleaning, column_cleaners
from murmurlog.logs.rows import ROW_BITS, RowReader, Texts
from murmurlog.logs.text_keys import KeyList, TextKeys
from murmurlog.logs.workspace import open_workspace, split_rows
from murmurlog.privacy.sampler import SeededEntropy

THREADS = 4


@pytest.fixture(autouse=True)
def many_switches():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class SlowNumber(int):
    """A number that is written long after it was read."""

    def __add__(self, other):
        time.sleep(0.0005)
        return SlowNumber(int(self) + other)

    def __sub__(self, other):
        return self + -other


class SlowEntropy(SeededEntropy):
    """Every second one who draws bytes has them long after the next one has others."""

    calls = 0

    def bytes(self, count):
        slow, self.calls = self.calls % 2 == 0, self.calls + 1
        data = super().bytes(count)
        time.sleep(0.005 * slow)
        return data

    def stream(self, *label):
        return SlowEntropy(self.seed, *self.label, *label)


class SlowList(list):
    """Another thread's turn comes after a value was added."""

    def append(self, value):
        super().append(value)
        time.sleep(0.001)


def test_threads_that_need_numbers_at_once_have_the_same_keys():
    """A text's key must not depend on who asked first for the numbers of how long a text."""
    texts = [pa.array(["x" * (7 * length)] * 3, pa.large_string()) for length in range(1, 40)]
    alone = TextKeys(SlowEntropy(1))
    expected = [alone.texts(text).tolist() for text in reversed(texts)]
    for _ in range(3):
        together = TextKeys(SlowEntropy(1))
        with ThreadPoolExecutor(THREADS) as pool:
            keys = [key.tolist() for key in pool.map(together.texts, texts)]
        assert keys == expected[::-1]


def test_combinations_and_lists_that_are_keyed_at_once_have_the_same_keys():
    parts = [TextKeys(SlowEntropy(1)).numbers(np.arange(6) + n) for n in range(8)]
    sizes = range(1, 9)

    def keys_of(text_keys, many):
        members, length = np.concatenate(parts[:many]), np.full(6, many)
        return text_keys.combine(parts[:many]).tolist(), text_keys.lists(members, length).tolist()

    alone = TextKeys(SlowEntropy(2))
    expected = [keys_of(alone, many) for many in reversed(sizes)]
    together = TextKeys(SlowEntropy(2))
    with ThreadPoolExecutor(THREADS) as pool:
        result = list(pool.map(lambda many: keys_of(together, many), sizes))
    assert result == expected[::-1]


def test_batches_that_are_added_at_once_have_texts_of_their_own():
    with open_workspace(threads=THREADS) as workspace:
        texts = Texts(workspace, [])
        texts._batches = SlowList()
        columns = [pa.array([f"{n} {row}" for row in range(5)]) for n in range(40)]
        firsts = list(workspace.map(lambda column: texts.add([column]), columns))
        assert len({*firsts}) == len(columns)
        assert {first >> ROW_BITS for first in firsts} == {*range(len(columns))}
        for first, column in zip(firsts, columns, strict=True):
            assert texts.take(np.arange(first, first + 5)).to_pylist() == column.to_pylist()


def test_memory_that_threads_take_and_free_at_once_is_all_free_in_the_end():
    with open_workspace(threads=THREADS) as workspace:
        workspace._used = SlowNumber(0)

        def keep(number):
            handles = [workspace.keep(np.zeros(number + part)) for part in range(5)]
            assert workspace._used > 0
            for value in handles:
                value.close()

        list(workspace.map(keep, range(40)))
        assert workspace._used == 0


def test_a_file_is_gone_when_threads_have_closed_its_values_at_once(tmp_path):
    with open_workspace(memory=0, threads=THREADS, folder=tmp_path) as workspace:
        for _ in range(5):
            runs = workspace.keep_runs(split_rows((np.arange(40),), [*range(41)]))
            runs.left = SlowNumber(40)
            list(workspace.map(lambda run: run.close(), runs))
            assert not any(file.stat().st_size for file in workspace.folder.glob("*.values"))


def test_keys_are_looked_up_by_several_threads_in_one_new_list():
    keys = TextKeys(SeededEntropy(1)).numbers(np.arange(5_000))
    some = keys[::2]
    expected = KeyList.of(some).places(keys).tolist()
    for _ in range(5):
        key_list = KeyList.of(some)
        with ThreadPoolExecutor(THREADS) as pool:
            assert all(
                result.tolist() == expected
                for result in pool.map(key_list.places, [keys] * THREADS)
            )


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_progress_is_told_in_the_thread_that_reads_and_rows_are_the_same_in_any(memory, tmp_path):
    cleaning = Cleaning(timed=False, url=None, ranked=False)
    table = pa.table({"user": [f"u{n % 70}" for n in range(2_000)],
                      "query": [f"Q {n % 9}" for n in range(2_000)]})  # fmt: skip
    outcomes = []
    for threads in (1, THREADS):
        counts = Counter()
        with open_workspace(memory=memory, threads=threads, folder=tmp_path) as workspace:
            reader = RowReader(
                cleaning=cleaning, text_keys=TextKeys(SlowEntropy(1)),
                texts=Texts(workspace, column_cleaners(cleaning)), bits=3, most_rows=300,
            )  # fmt: skip

            def advance(rows, counts=counts):
                counts[threading.current_thread() is threading.main_thread()] += rows

            read = reader.read(table.to_batches(50), workspace, advance).settle()
            rows = [row for part in read.partitions.results(rows_of_partition) for row in part]
            outcomes.append((Counter(map(str, rows)), read.counts))
        assert counts == {True: 2_000}
    assert outcomes[0] == outcomes[1]

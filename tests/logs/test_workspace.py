"""Values stay in memory where they fit, and in private files where they do not; either way they are the same."""

import os
import stat
import threading
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.errors import EngineError
from murmurlog.logs.workspace import Resident, cores, memory_of_machine, open_workspace, split_rows


def files_of(workspace):
    """The files that have values; empty ones wait for others."""
    files = workspace.folder.glob("*.values")
    return sorted(path.name for path in files if path.stat().st_size)


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_a_value_comes_back_as_it_was(tmp_path, memory):
    value = {"a": np.arange(7), "b": pa.array(["x", None, ""], pa.large_string()), "c": ("t", 1.5)}
    with open_workspace(memory=memory, folder=tmp_path) as workspace:
        handle = workspace.keep(value)
        assert (handle.load()["a"] == value["a"]).all()
        for mapped in (False, True):
            again = handle.load(mapped=mapped)
            assert again["b"].equals(value["b"])
            assert again["c"] == value["c"]
        assert bool(files_of(workspace)) == (memory == 0)
        handle.close()
        assert not files_of(workspace)


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_runs_of_rows_are_read_one_by_one(tmp_path, memory):
    columns = np.arange(20, dtype=np.uint64).reshape(10, 2), np.arange(10, dtype=np.int32)
    with open_workspace(memory=memory, folder=tmp_path) as workspace:
        runs = workspace.keep_runs(split_rows(columns, [0, 4, 4, 10]))
        for part, (start, end) in zip(runs, [(0, 4), (4, 4), (4, 10)], strict=True):
            for column, wanted in zip(part.load(), columns, strict=True):
                assert np.array_equal(column, wanted[start:end])
                assert column.dtype == wanted.dtype
        assert len(files_of(workspace)) == (memory == 0)
        for part in runs:
            assert runs.values is not None or len(files_of(workspace)) == 1
            part.close()
        assert not files_of(workspace)
        assert workspace._used == 0


def test_what_is_closed_leaves_room_for_others(tmp_path):
    values = [np.zeros(1000, np.int64) for _ in range(3)]
    with open_workspace(memory=18_000, folder=tmp_path) as workspace:  # two values
        handles = [workspace.keep(value) for value in values]
        assert len(files_of(workspace)) == 1
        handles[0].close()
        workspace.keep(values[0])
        assert len(files_of(workspace)) == 1


@pytest.mark.parametrize("memory", [0, 18_000])
def test_what_nobody_refers_to_any_more_is_gone(tmp_path, memory):
    with open_workspace(memory=memory, folder=tmp_path) as workspace:
        handle = workspace.keep(np.zeros(1000, np.int64))
        assert len(files_of(workspace)) == (memory == 0)
        assert (workspace._used > 0) == (memory > 0)
        del handle
        assert not files_of(workspace)
        assert workspace._used == 0


def test_files_are_private_and_gone_at_the_end(tmp_path):
    with open_workspace(memory=0, folder=tmp_path) as workspace:
        handle = workspace.keep(np.arange(10))
        (path,) = workspace.folder.glob("*.values")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(workspace.folder.stat().st_mode) == 0o700
    assert not list(tmp_path.iterdir())
    del handle  # its file is gone already


def test_no_folder_is_made_while_everything_fits(tmp_path):
    with open_workspace(folder=tmp_path) as workspace:
        workspace.keep(np.arange(10))
        assert not list(tmp_path.iterdir())


def test_an_object_that_stays_is_the_same_one_after_a_file(tmp_path):
    resident = Resident()
    with open_workspace(memory=0, folder=tmp_path) as workspace:
        handle = workspace.keep({"resident": resident, "rows": np.arange(3)})
        assert handle.load()["resident"] is resident


def test_a_full_disk_is_an_error_that_leaves_no_file(tmp_path, monkeypatch):
    with open_workspace(memory=0, folder=tmp_path) as workspace:
        folder = workspace.folder

        def refuse(path, *_, **__):
            path.touch()
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("builtins.open", refuse)
        with pytest.raises(EngineError, match="no room left for temporary files"):
            workspace.keep(np.arange(10))
        monkeypatch.undo()
        assert folder.exists()
        assert not files_of(workspace)


def test_values_never_take_more_memory_than_there_is_room_for(tmp_path):
    """Several threads keep and forget values of all sizes; what is in memory is counted and bounded."""
    with open_workspace(memory=50_000, threads=4, folder=tmp_path) as workspace:
        in_memory, most = [], [0]

        def work(number):
            size = number * 37 % 2_000
            value = np.full(size, number, np.int64)
            runs = workspace.keep_runs(split_rows((value,), [0, size // 2, size]))
            handles = [workspace.keep(value), *runs]
            in_memory.append(
                8 * size * ((runs.values is not None) + (handles[0].value is not None))
            )
            most[0] = max(most[0], workspace._used)
            assert workspace._used <= 50_000
            if number % 3:
                for handle in handles:
                    handle.close()
                handles = []
            return handles

        results = list(workspace.map(work, range(300)))
        assert 30_000 < most[0] <= 50_000
        assert max(in_memory) > 0
        assert files_of(workspace)
        for handles in results:
            for handle in handles:
                handle.close()
        assert workspace._used == workspace._in_files == 0
        assert not files_of(workspace)


def test_scratch_space_that_is_not_there_is_named_before_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=3 * 10**9))
    with open_workspace(memory=10**9, folder=tmp_path) as workspace:
        workspace.check_space(4 * 10**9)
        with pytest.raises(EngineError, match=r"about 3.1 GB .* has 3.0 GB free: set TMPDIR"):
            workspace.check_space(4_100_000_000)


def test_what_is_set_aside_is_used_by_what_is_kept_later(tmp_path):
    with open_workspace(memory=0, folder=tmp_path) as workspace:
        first = workspace.keep(np.zeros(10_000, np.uint8))
        workspace.set_aside()
        aside = workspace.folder / "aside"
        assert aside.stat().st_size == first.size
        assert aside.stat().st_blocks * 512 >= first.size  # not only its length
        second = workspace.keep(np.zeros(4_000, np.uint8))
        assert aside.stat().st_size == first.size - second.size
        workspace.keep(np.zeros(90_000, np.uint8))
        assert aside.stat().st_size == 0
    with open_workspace(memory=10**6, folder=tmp_path) as workspace:
        handle = workspace.keep(np.zeros(10_000, np.uint8))
        workspace.set_aside()  # there is room in memory
        assert not list(tmp_path.iterdir())
        handle.close()


def test_a_disk_that_is_too_small_for_the_rest_is_seen_where_it_is_set_aside(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with open_workspace(memory=0, folder=tmp_path) as workspace:
        handle = workspace.keep(np.zeros(10_000, np.uint8))
        with pytest.raises(EngineError, match="1 MB of disk space for the rest .* TMPDIR"):
            workspace.set_aside()
        assert not (workspace.folder / "aside").exists()
        handle.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_inputs(threads):
    with open_workspace(threads=threads) as workspace:
        assert list(workspace.map(lambda n: n * n, range(50))) == [n * n for n in range(50)]


def test_no_more_inputs_are_taken_than_threads_need():
    numbers = []

    def inputs():
        for number in range(100):
            numbers.append(number)
            yield number

    with open_workspace(threads=2) as workspace:
        results = workspace.map(lambda n: n, inputs())
        assert next(results) == 0
        assert len(numbers) <= 4
        results.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_ends_the_work_and_is_the_one_that_is_seen(threads):
    def work(number):
        if number == 3:
            raise EngineError("number 3")
        return number

    with open_workspace(threads=threads) as workspace, pytest.raises(EngineError, match="number 3"):
        list(workspace.map(work, range(1000)))


def test_a_workspace_takes_what_the_machine_has():
    assert 1 <= cores() <= (os.cpu_count() or 1)
    assert 1e8 < memory_of_machine() < 1e14


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_a_stop_while_threads_keep_values_leaves_no_folder(tmp_path, memory):
    """Whoever reads results may be stopped, and threads are not told before the folder is to go."""

    def keep_many(keep, number):
        for size in range(10_000 * number):
            keep(np.arange(size % 10))

    def stop_at_first_result():
        with open_workspace(memory=memory, threads=4, folder=tmp_path) as workspace:
            keep = workspace.keep
            results = workspace.map(lambda number: keep_many(keep, number), range(100))
            for _ in results:
                time.sleep(0.1)  # the threads' turn
                raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as stop:  # which holds the results
        stop_at_first_result()
    assert stop.traceback
    assert not list(tmp_path.iterdir())
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]
    assert time.monotonic() - started < 10


def test_nothing_is_kept_after_the_end(tmp_path):
    with open_workspace(memory=0, folder=tmp_path) as workspace:
        pass
    with pytest.raises(EngineError, match="the work has ended"):
        workspace.keep(1)
    assert not list(tmp_path.iterdir())


def test_a_value_may_be_dropped_while_its_file_is_at_work(tmp_path):
    """The collector runs at any allocation, so also where another value of the file is closed."""
    with open_workspace(memory=0, folder=tmp_path) as workspace:
        first, second = workspace.keep_runs(split_rows((np.arange(4),), [0, 2, 4]))

        def drop():
            with first.runs.lock:
                second.close()

        thread = threading.Thread(target=drop, daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
        first.close()
        assert not files_of(workspace)

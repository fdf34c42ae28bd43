"""The engine of this machine: when DuckDB is open, memory, folders that are swept after a crash."""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from murmurlog.bundle import scratch as scratch_module
from murmurlog.bundle.scratch import PREFIX, scratch, sweep
from murmurlog.errors import EngineError, InputError, UsageError
from murmurlog.logs.engines.duckdb import bits_for, connect, rows_of
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.memory import MemoryPlan, least_memory
from murmurlog.logs.rows import RowReader
from murmurlog.logs.source import find
from murmurlog.publishing.release import release


def test_duckdb_is_open_only_while_a_log_is_read(tmp_path, engine, monkeypatch):
    write(invent(rows=1_000, seed=1), tmp_path / "log.parquet")
    opened, real = [], duckdb.connect

    def connect_and_note(*args, **keywords):
        opened.append(real(*args, **keywords))
        return opened[-1]

    settle = RowReader.settle

    def settle_without_duckdb(self, lines):
        with pytest.raises(duckdb.ConnectionException):
            opened[-1].execute("SELECT 1")
        return settle(self, lines)

    monkeypatch.setattr(duckdb, "connect", connect_and_note)
    monkeypatch.setattr(RowReader, "settle", settle_without_duckdb)
    assert read(find(str(tmp_path / "log.parquet")), engine=engine).rows == 1_000
    assert opened


def test_duckdb_is_closed_after_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    write(invent(rows=1_000, seed=1), tmp_path / "log.parquet")
    opened, real = [], duckdb.connect
    monkeypatch.setattr(
        duckdb, "connect", lambda *a, **k: opened.append(real(*a, **k)) or opened[-1]
    )
    monkeypatch.setattr(RowReader, "clean", lambda self, batch: 1 // 0)
    (tmp_path / "scratch").mkdir()
    with pytest.raises(ZeroDivisionError), connect(folder=tmp_path / "scratch") as engine:
        read(find(str(tmp_path / "log.parquet")), engine=engine)
    with pytest.raises(duckdb.ConnectionException):
        opened[-1].execute("SELECT 1")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_number_of_partitions_follows_from_the_size_of_the_source_and_the_memory(tmp_path):
    def bits(rows, memory=10**11, cores=2):
        return bits_for(rows, MemoryPlan.of(memory, cores=cores))

    assert [bits(10), bits(99_999), bits(100_000), bits(2_500_000)] == [0, 0, 2, 3]
    assert bits(100_000, cores=8) == 4
    assert bits(2_500_000, memory=least_memory()) == 4
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": pa.array(range(300)), "query": ["x"] * 300}), path)
    assert rows_of(find(str(path))) == 300
    text = tmp_path / "log.csv"
    text.write_text("user,query\n" + "someone,some words\n" * 1_000)
    assert rows_of(find(str(text))) < 1_000
    os.truncate(text, 10**12)
    assert bits(rows_of(find(str(text)))) == 11  # no more than are useful, however large it is


def test_a_memory_limit_that_is_no_size_is_named():
    with (
        pytest.raises(UsageError, match="--memory 'plenty' is not a size"),
        connect(memory="plenty"),
    ):
        pass


@pytest.mark.parametrize("memory", ["1KB", "0MB", "500MB", "1001TB", "9" * 400 + "TB"])
def test_memory_that_the_largest_unit_does_not_fit_into_is_refused_before_anything_is_read(memory):
    least = -(-least_memory() // 10**6)
    with pytest.raises(UsageError, match=f"give it {least} MB to 1000 TB"), connect(memory=memory):
        pass
    with pytest.raises(UsageError, match="give it"):
        release("there is no such log", out="out", epsilon=1.0, memory=memory)


def test_the_least_memory_is_enough_for_an_engine(tmp_path):
    with connect(memory=f"{-(-least_memory() // 10**6)}MB", folder=tmp_path) as engine:
        assert engine.memory.threads == 1
        assert engine.workspace.memory < 10**6


def test_a_scratch_folder_is_private_and_gone_afterwards(tmp_path):
    with scratch(tmp_path) as folder:
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "file").write_text("x")
        assert sweep(tmp_path) == []  # a live one is left alone
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_leaves_is_swept_by_the_next(tmp_path):
    code = f"""
        import os, pathlib
        from murmurlog.bundle.scratch import scratch
        with scratch(pathlib.Path({str(tmp_path)!r})) as folder:
            (folder / "log").write_text("somebody's queries")
            os.kill(os.getpid(), 9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)])
    assert done.returncode == -9
    assert len(list(tmp_path.glob(PREFIX + "*"))) == 1
    with scratch(tmp_path):
        assert len(list(tmp_path.glob(PREFIX + "*"))) == 1
    assert list(tmp_path.iterdir()) == []


def test_folders_of_others_and_unlocked_ones_with_content_are_left_alone(tmp_path, monkeypatch):
    stranger = tmp_path / f"{PREFIX}stranger"
    stranger.mkdir()
    (stranger / "file").touch()
    assert sweep(tmp_path) == []
    (stranger / scratch_module.LOCK).touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: 12345)
        assert sweep(tmp_path) == []
    assert sweep(tmp_path) == [stranger]


def test_a_folder_that_was_never_locked_is_swept(tmp_path):
    (tmp_path / f"{PREFIX}early").mkdir()
    assert len(sweep(tmp_path)) == 1


def test_a_file_damaged_in_the_middle_is_an_input_error(tmp_path):
    path = tmp_path / "log.parquet"
    write(invent(rows=50_000, seed=1), path)
    content = bytearray(path.read_bytes())
    for i in range(2_000, len(content) // 2, 97):
        content[i] ^= 0x5A
    path.write_bytes(content)
    with pytest.raises(InputError, match="could not be read to its end"), connect() as engine:
        read(find(str(path)), engine=engine)


def test_too_little_memory_is_said(tmp_path):
    path = tmp_path / "log.duckdb"
    rows = invent(rows=200_000, seed=1).table
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE log AS SELECT * FROM rows")
    with pytest.raises(EngineError, match="ran out of memory"), connect() as engine:
        read(
            find(str(path)), engine=replace(engine, memory=replace(engine.memory, duckdb=1_000_000))
        )

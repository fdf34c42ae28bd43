"""The engine: self-test, memory limit, scratch folders that are swept after a crash."""

import os
import subprocess
import sys
import textwrap

import ibis
import pytest

from murmurlog.bundle import scratch as scratch_module
from murmurlog.bundle.scratch import PREFIX, scratch, sweep
from murmurlog.errors import EngineError, InputError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.source import find


def test_an_engine_that_hashes_differently_is_refused(engine, monkeypatch):
    engine.self_test()
    real = ibis.expr.types.StringValue.hexdigest
    monkeypatch.setattr(
        ibis.expr.types.StringValue, "hexdigest", lambda self, how: real(self.upper(), how)
    )
    with pytest.raises(EngineError, match="fails its self-test"):
        engine.self_test()


def test_a_memory_limit_is_kept_by_spilling(tmp_path):
    with connect(memory="100MB", folder=tmp_path) as engine:
        engine.sql(
            "CREATE TABLE big AS SELECT range AS i, md5(range::VARCHAR) AS t FROM range(4000000)"
        )
        spilled = engine.sql(
            "SELECT coalesce(sum(size), 0) FROM duckdb_temporary_files()"
        ).fetchone()[0]
        assert spilled > 0
        assert engine.sql("SELECT count(DISTINCT t) FROM big").fetchone()[0] == 4_000_000
    assert list(tmp_path.iterdir()) == []


def test_a_memory_limit_that_is_no_size_is_named():
    with (
        pytest.raises(UsageError, match="--memory 'plenty' is not a size"),
        connect(memory="plenty"),
    ):
        pass


@pytest.mark.parametrize("memory", ["1KB", "0MB", "1.9MB", "1001TB", "9" * 400 + "TB"])
def test_a_memory_limit_that_no_engine_can_keep_is_named(memory, tmp_path):
    with pytest.raises(UsageError, match="give it 2MB to 1000TB"), connect(memory=memory):
        pass
    with connect(memory="2MB", folder=tmp_path) as engine:
        assert engine.memory < 2_000_000


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
    path = tmp_path / "log.parquet"
    write(invent(rows=200_000, seed=1), path)
    with pytest.raises(EngineError, match="ran out of memory"), connect(memory="5MB") as engine:
        read(find(str(path)), engine=engine)

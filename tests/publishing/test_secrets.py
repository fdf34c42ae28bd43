"""What must not leave the owner: queries, ids, paths, seeds and exact counts, in whatever place."""

import contextlib
import json
import os
import stat
from datetime import UTC, datetime

import cases
import pytest
from command import run

from murmurlog.bundle.scratch import PREFIX, sweep
from murmurlog.publishing.ledger import Ledger

MECHANISM = ("--mechanism", "threshold(noise=geometric, d=1, scale=1.0, T=24)", "--tables", "query")
USERS = 397  # no other number of a release is likely to be the same


@contextlib.contextmanager
def set_umask(umask):
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def release(folder, *more, umask=0o022):
    with set_umask(umask):
        return run(
            "release", "log.tsv", "--out", "bundle", "--ledger", "ledger.db", "--source", "web",
            *MECHANISM, *more, cwd=folder, env={"TMPDIR": str(folder / "tmp")},
        )  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "log.tsv").write_text(cases.text("tsv", USERS - 1))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    Ledger(tmp_path / "ledger.db").cap("web", epsilon=20, delta=1e-3)
    return tmp_path


def numbers(value):
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield value


def test_bundle_ledger_and_words_hold_no_query_no_id_no_path_and_no_exact_count(folder):
    done = release(folder, "--json")
    assert done.returncode == 0, done.stderr
    places = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    for path in (folder / "ledger.db", *(p for p in (folder / "bundle").rglob("*") if p.is_file())):
        places[path.name] = path.read_bytes()
    assert {"privacy.json", "query.parquet", "report.html", "ledger.db"} <= set(places)
    for name, content in places.items():
        for secret in cases.SECRETS:
            assert secret not in content.lower(), name
        if name not in ("stdout", "stderr"):
            assert str(folder).encode() not in content, name
            assert b"log.tsv" not in content, name
    for name in ("privacy.json", "croissant.json", "datapackage.json"):
        assert not {USERS, USERS - 1} & set(numbers(json.loads(places[name]))), name
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("umask", "file", "directory"), [(0, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_nobody_else_can_write_what_was_made(folder, umask, file, directory):
    assert release(folder, umask=umask).returncode == 0
    for path in (folder / "bundle", *(folder / "bundle").rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (directory if path.is_dir() else file), path
    assert stat.S_IMODE((folder / "ledger.db").stat().st_mode) == 0o600


def test_times_of_files_say_the_day_and_not_how_long_a_table_took(folder):
    assert release(folder).returncode == 0
    published = json.loads((folder / "bundle" / "privacy.json").read_text())["published"]
    day = datetime.fromisoformat(published).replace(tzinfo=UTC).timestamp()
    for path in (folder / "bundle", *(folder / "bundle").rglob("*")):
        assert path.stat().st_mtime == day, path


def test_a_log_that_cannot_be_parsed_is_not_quoted(tmp_path):
    """Quotes that do not match, and lines that are no JSON."""
    secret = cases.QUERY
    (tmp_path / "log.csv").write_bytes(f'user,query\nu1,{secret}"{secret}\nu3,x\n'.encode())
    (tmp_path / "log.jsonl").write_text('{"user": 1, "query": "' + secret + '"\n[1\n')
    for name in ("log.csv", "log.jsonl"):
        keys = ("--columns", "user=user,query=query")
        done = run("release", name, *keys, *MECHANISM, "--out", "b", cwd=tmp_path)
        assert done.returncode == 4
        assert name in done.stderr
        assert secret not in done.stderr


def test_files_of_which_one_has_no_header_are_not_quoted(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.csv").write_text("user,query\nu1,x\n")
    (tmp_path / "logs" / "b.csv").write_text(f"u2,{cases.QUERY}\n")
    done = run("release", "logs", *MECHANISM, "--out", "b", cwd=tmp_path)
    assert done.returncode == 4
    assert "b.csv has other columns" in done.stderr
    assert cases.QUERY not in done.stderr


def test_names_of_others_give_the_terminal_no_orders(tmp_path):
    name = "\x1b[2J\u202e\x07.csv"
    (tmp_path / name).write_text("user,x\n1,2\n")
    done = run("release", name, *MECHANISM, "--out", "b", cwd=tmp_path)
    assert done.returncode == 4
    assert "\\x1b[2J\\u202e\\x07.csv" in done.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stderr)
    done = run("release", "\udcff.csv", *MECHANISM, "--out", "b", cwd=tmp_path)
    assert "\\udcff.csv" in done.stderr


def test_a_link_of_somebody_else_does_not_lead_the_sweep_to_other_folders(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / ".lock").touch()
    (mine / "thesis.txt").write_text("years of work")
    (tmp_path / f"{PREFIX}planted").symlink_to(mine)
    assert sweep(tmp_path) == []
    assert (mine / "thesis.txt").exists()

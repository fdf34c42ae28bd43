"""`murmurlog.init` as a function, and the file that it writes."""

import tomllib
from pathlib import Path

import pytest
from owned_logs import rows, write

import murmurlog
from murmurlog.cli.app import settings_of
from murmurlog.cli.main import app
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.inspection import blocks
from murmurlog.publishing.init import propose, source_name
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.proposal import Answers


@pytest.fixture
def log(tmp_path):
    return Path(write(tmp_path / "log.csv", list(rows())))


def test_a_proposal_is_an_object(log, tmp_path):
    made = murmurlog.init(log, out=tmp_path / "murmurlog.toml", users=40_000, title='A "B" \\ ü')
    assert made.settings["release"]["users"] == 40_000
    assert [column.role for column in made.columns] == ["user", "query", "time", "url"]
    assert made.columns[0].samples
    assert made.as_json()["out"] == str(tmp_path / "murmurlog.toml")
    shown = repr(made)
    assert "for your eyes only" in shown
    assert "user=Nutzer, query=Suchanfrage" in shown
    assert "unreadable 0.0%" in shown
    assert made.command.startswith("murmurlog --config ")


def test_the_file_is_what_the_commands_take(log, tmp_path):
    assert app is not None  # the commands are registered
    made = murmurlog.init(log, out=tmp_path / "murmurlog.toml", title='A "B" \\ ü = #')
    found = tomllib.loads((tmp_path / "murmurlog.toml").read_text())
    assert found == made.settings
    taken = settings_of(tmp_path / "murmurlog.toml")
    assert taken["release"]["about"] == ['title=A "B" \\ ü = #']
    assert taken["release"]["columns"].startswith("user=Nutzer,query=Suchanfrage")
    assert taken["evaluate"]["time_format"] == "%d.%m.%Y %H:%M"


def test_nothing_is_written_without_a_target(log, tmp_path):
    made = murmurlog.init(str(log), out=None)
    assert made.out is None
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_the_cap_follows_from_the_number_of_users():
    assert (Answers().whole_delta, Answers().delta) == (1e-5, 1e-6)
    few, many = Answers(users=500), Answers(users=10**8)
    assert (few.whole_delta, few.delta) == (1e-5, 1e-6)
    assert (many.whole_delta, many.delta) == (1e-9, 1e-10)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"users": 0}, "at least 1"),
        ({"epsilon": 0.0}, "above 0"),
        ({"epsilon": 4.0}, "exceeds the cap of all releases, 3"),
        ({"title": "two\nlines"}, "line"),
        ({"source_name": " "}, "not a valid name"),
        ({"colour": "red"}, "init has no option colour"),
    ],
)
def test_answers_that_cannot_be_are_refused(log, tmp_path, given, message):
    with pytest.raises(UsageError, match=message):
        murmurlog.init(log, out=tmp_path / "murmurlog.toml", **given)
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_a_frame_is_no_source(tmp_path):
    with pytest.raises(UsageError, match="not at a list: give a str or a Path"):
        murmurlog.init([1, 2], out=tmp_path / "murmurlog.toml")


def test_a_log_that_no_release_could_read_gets_no_settings(tmp_path):
    write(tmp_path / "log.csv", [(user, " ", time, url) for user, _, time, url in rows()])
    with pytest.raises(InputError, match="no usable rows|looks like a query"):
        murmurlog.init(tmp_path / "log.csv", out=tmp_path / "murmurlog.toml")
    assert not (tmp_path / "murmurlog.toml").exists()
    assert not (tmp_path / "murmurlog-ledger.db").exists()


def test_of_a_large_file_a_sample_is_read(tmp_path, monkeypatch):
    path = write(tmp_path / "log.csv", list(rows(4000)))
    monkeypatch.setattr(blocks, "MOST", 50_000)
    monkeypatch.setattr(blocks, "BLOCK", 4096)
    trial = propose(path).trial
    assert trial.sampled
    assert (trial.failure, trial.broken) == (None, {})
    assert 500 < trial.rows < 2000


def test_a_ledger_that_cannot_be_used_stops_before_anything_is_written(log, tmp_path):
    (tmp_path / "other.db").write_bytes(b"")
    with pytest.raises(murmurlog.Refused, match="empty file"):
        murmurlog.init(log, out=tmp_path / "murmurlog.toml", ledger=tmp_path / "other.db")
    assert not (tmp_path / "murmurlog.toml").exists()


def test_a_second_log_of_the_same_users_keeps_their_cap(log, tmp_path):
    murmurlog.init(log, out=tmp_path / "a.toml", source_name="web")
    murmurlog.init(log, out=tmp_path / "b.toml", source_name="web", cap_epsilon=9.0)
    (account,) = Ledger(tmp_path / "murmurlog-ledger.db").accounts()
    assert (account.name, account.epsilon_cap) == ("web", 3.0)


def test_names_of_sources_come_from_files():
    assert source_name("/logs/search 2025.csv.gz") == "search 2025"
    assert source_name("postgresql://u@host/db::public.searches") == "public-searches"
    assert source_name("logs.duckdb::q3") == "logs"


def test_questions_can_be_asked_from_python(log, tmp_path, monkeypatch):
    answers = iter(["y", "", "City library", *[""] * 7])
    monkeypatch.setattr("builtins.input", lambda: next(answers))
    made = murmurlog.init(log, out=tmp_path / "murmurlog.toml", yes=False)
    about = {"title": "Search queries of log", "publisher": "City library"}
    assert made.settings["release"]["about"] == about
    assert list(answers) == []


def test_answers_that_end_early_write_nothing(log, tmp_path, monkeypatch):
    def end():
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    with pytest.raises(UsageError, match="nothing was written"):
        murmurlog.init(log, out=tmp_path / "murmurlog.toml", yes=False)
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]

"""`murmurlog.init` as a function, and the file that it writes."""

import tomllib
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from owner_logs import make_rows, write_log

import murmurlog
from murmurlog.cli.app import settings_of
from murmurlog.cli.main import app
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.inspection import blocks
from murmurlog.publishing.init import propose, source_name
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.proposal import Answers
from murmurlog.publishing.proposal import write as write_settings


@pytest.fixture
def log(tmp_path):
    return Path(write_log(tmp_path / "log.csv", list(make_rows())))


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
        ({"epsilon": 4.0}, "does not fit a cap of 3 for all"),
        ({"title": "two\nlines"}, "line"),
        ({"source_name": " "}, "not a valid name"),
        ({"colour": "red"}, "init has no option colour"),
    ],
)
def test_answers_that_cannot_be_are_refused(log, tmp_path, given, message):
    with pytest.raises(UsageError, match=message):
        murmurlog.init(log, out=tmp_path / "murmurlog.toml", **given)
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


OBJECTS = {
    "pandas": lambda file: pd.read_csv(file, sep=";", encoding="latin-1"),
    "polars": lambda file: pl.from_pandas(OBJECTS["pandas"](file)),
    "polars, lazy": lambda file: OBJECTS["polars"](file).lazy(),
    "Arrow": lambda file: pa.Table.from_pandas(OBJECTS["pandas"](file)),
    "DuckDB": lambda file: duckdb.from_arrow(OBJECTS["Arrow"](file)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OBJECTS)
def test_the_settings_of_an_object_are_those_of_its_file_and_release_it(
    kind, log, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    given = OBJECTS[kind](log)
    made = murmurlog.init(given, out="murmurlog.toml", title="Searches")
    of_file = murmurlog.init(log, out=None, title="Searches", source_name="searches")
    reading = {n: v for n, v in of_file.reading.items() if n not in ("encoding", "delimiter")}
    assert dict(made.reading) == reading
    assert made.trial.rows == of_file.trial.rows
    assert made.source == f"a {type(given).__name__}"
    assert tomllib.loads(Path("murmurlog.toml").read_text()) == made.settings
    # What it says to do next is what Python takes, and it is booked under the cap of init.
    assert made.command.startswith("murmurlog.release(log, out='bundle', epsilon=1.0, ")
    done = eval(made.command, {"murmurlog": murmurlog, "log": given})
    assert done.booked
    assert murmurlog.verify("bundle", ledger="murmurlog-ledger.db").ok
    book = Ledger(Path("murmurlog-ledger.db"))
    (account,), (entry,) = book.accounts(), book.entries()
    assert (account.name, entry.epsilon, account.epsilon_cap) == ("searches", 1.0, 3.0)


def test_a_stream_that_can_be_read_once_is_refused_and_not_read(log, tmp_path):
    reader = OBJECTS["Arrow"](log).to_reader()
    with pytest.raises(UsageError, match="a RecordBatchReader can be read once: after init"):
        murmurlog.init(reader, out=tmp_path / "murmurlog.toml")
    assert reader.read_all().num_rows > 0
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_the_owner_of_an_object_can_change_how_it_is_read(log, monkeypatch):
    """The copy of the rows is there as long as questions are asked."""
    answers = iter(["n", "", "", "", "none", *[""] * 20])
    monkeypatch.setattr("builtins.input", lambda: next(answers))
    made = murmurlog.init(OBJECTS["pandas"](log), out=None, yes=False, ledger=None)
    assert made.reading["columns"]["url"] == "none"
    assert made.trial.failure is None


@pytest.mark.parametrize("source", [[1, 2], 3, None])
def test_other_objects_are_refused_with_what_is_accepted(source, tmp_path):
    with pytest.raises(UsageError, match="a log cannot be a .*give a path"):
        murmurlog.init(source, out=tmp_path / "murmurlog.toml")


def test_columns_that_are_no_log_are_named_without_the_copy():
    with pytest.raises(InputError, match="no column of DataFrame.parquet looks like"):
        murmurlog.init(pd.DataFrame({"a": [1.5], "b": [2.5]}), out=None)


def test_a_log_that_no_release_could_read_gets_no_settings(tmp_path):
    write_log(tmp_path / "log.csv", [(user, " ", time, url) for user, _, time, url in make_rows()])
    with pytest.raises(InputError, match="no usable rows|looks like a query"):
        murmurlog.init(tmp_path / "log.csv", out=tmp_path / "murmurlog.toml")
    assert not (tmp_path / "murmurlog.toml").exists()
    assert not (tmp_path / "murmurlog-ledger.db").exists()


@pytest.mark.slow
def test_of_a_large_file_a_sample_is_read(tmp_path, monkeypatch):
    path = write_log(tmp_path / "log.csv", list(make_rows(4000)))
    monkeypatch.setattr(blocks, "MOST", 50_000)
    monkeypatch.setattr(blocks, "BLOCK", 4096)
    with propose(path) as made:
        trial = made.trial
    assert trial.sampled
    assert (trial.failure, trial.broken) == (None, {})
    assert 500 < trial.rows < 2000


def test_a_ledger_that_cannot_be_used_stops_before_anything_is_written(log, tmp_path):
    (tmp_path / "other.db").write_bytes(b"")
    with pytest.raises(murmurlog.Refused, match="empty file"):
        murmurlog.init(log, out=tmp_path / "murmurlog.toml", ledger=tmp_path / "other.db")
    assert not (tmp_path / "murmurlog.toml").exists()


@pytest.mark.slow
def test_a_second_log_of_the_same_users_keeps_their_cap(log, tmp_path):
    murmurlog.init(log, out=tmp_path / "a.toml", source_name="web")
    murmurlog.init(log, out=tmp_path / "b.toml", source_name="web", cap_epsilon=9.0)
    (account,) = Ledger(tmp_path / "murmurlog-ledger.db").accounts()
    assert (account.name, account.epsilon_cap) == ("web", 3.0)


def test_a_second_log_is_proposed_for_the_source_that_the_ledger_has(log, tmp_path):
    first, second = tmp_path / "2025-01.csv", tmp_path / "2025-02.csv"
    for each in (first, second):
        each.write_bytes(log.read_bytes())
    out, ledger = tmp_path / "murmurlog.toml", tmp_path / "murmurlog-ledger.db"
    murmurlog.init(first, out=out)
    made = murmurlog.init(second, out=out, force=True)
    assert made.settings["release"]["source"] == "2025-01"
    assert [account.name for account in Ledger(ledger).accounts()] == ["2025-01"]
    for more in ({"source_name": "2025-02"}, {"source_name": "mail"}):
        with pytest.raises(murmurlog.Refused, match="it has '2025-01'. A new source has a budget"):
            murmurlog.init(second, out=out, force=True, **more)
    murmurlog.init(second, out=out, force=True, new_source=True)
    assert [account.name for account in Ledger(ledger).accounts()] == ["2025-01", "2025-02"]
    before = out.read_bytes(), ledger.read_bytes()
    with pytest.raises(UsageError, match="has 2 sources: '2025-01', '2025-02'. Name the one"):
        murmurlog.init(second, out=out, force=True)
    assert (out.read_bytes(), ledger.read_bytes()) == before
    made = murmurlog.init(second, out=out, force=True, source_name="2025-01")
    assert made.settings["release"]["source"] == "2025-01"


def test_the_ledger_is_the_one_that_the_settings_name_or_that_is_beside_them(log, tmp_path):
    (tmp_path / "other").mkdir()
    budget, elsewhere = tmp_path / "budget.db", tmp_path / "other" / "b.db"
    (tmp_path / "cache.db").write_bytes(b"SQLite format 3\0" + bytes(100))  # of another program
    Ledger(budget).cap("web", epsilon=3, delta=1e-5)
    Ledger(elsewhere).cap("mail", epsilon=3, delta=1e-5)
    out = tmp_path / "murmurlog.toml"
    assert murmurlog.init(log, out=out).answers.ledger == budget
    murmurlog.init(log, out=out, force=True, ledger=elsewhere)
    again = murmurlog.init(log, out=out, force=True)
    assert (again.answers.ledger, again.answers.source_name) == (elsewhere, "mail")
    Ledger(tmp_path / "more.db").cap("web", epsilon=3, delta=1e-5)
    with pytest.raises(UsageError, match="several ledgers beside it, budget.db, more.db"):
        murmurlog.init(log, out=tmp_path / "new.toml")
    assert not (tmp_path / "murmurlog-ledger.db").exists()


def test_two_that_start_at_once_do_not_both_open_a_source(log, tmp_path):
    out = tmp_path / "murmurlog.toml"
    with propose(log, out=out) as made:
        Ledger(tmp_path / "murmurlog-ledger.db").cap("web", epsilon=3, delta=1e-5)
        with pytest.raises(murmurlog.Refused, match="has no source 'log'; it has 'web'"):
            write_settings(made, out)
    assert not out.exists()


def test_enter_takes_the_source_that_the_ledger_has(log, tmp_path, monkeypatch):
    Ledger(tmp_path / "murmurlog-ledger.db").cap("web", epsilon=3, delta=1e-5)
    monkeypatch.setattr("builtins.input", lambda: "")
    murmurlog.init(log, out=tmp_path / "murmurlog.toml", yes=False)
    assert [a.name for a in Ledger(tmp_path / "murmurlog-ledger.db").accounts()] == ["web"]


def test_of_several_sources_enter_takes_none(log, tmp_path, monkeypatch, capsys):
    book = Ledger(tmp_path / "murmurlog-ledger.db")
    for name in ("mail", "web"):
        book.cap(name, epsilon=3, delta=1e-5)
    texts = iter([*[""] * 7, "", "", "2"])
    monkeypatch.setattr("builtins.input", lambda: next(texts))
    made = murmurlog.init(log, out=tmp_path / "murmurlog.toml", yes=False)
    assert made.settings["release"]["source"] == "web"
    assert list(texts) == []
    told = capsys.readouterr().err
    assert told.count("answer with a number from 1 to 2, or with a name") == 2
    assert "Another name opens one more: only for users that are in none of them" in told


def test_a_new_source_is_opened_by_the_name_that_is_typed(log, tmp_path, monkeypatch):
    book = Ledger(tmp_path / "murmurlog-ledger.db")
    book.cap("web", epsilon=3, delta=1e-5)
    texts = iter([*[""] * 7, "WEB", "web-2", "2", ""])  # "WEB" is nearly a known name
    monkeypatch.setattr("builtins.input", lambda: next(texts))
    murmurlog.init(log, out=tmp_path / "murmurlog.toml", yes=False)
    assert {a.name: a.epsilon_cap for a in book.accounts()} == {"web": 3.0, "web-2": 2.0}


def test_names_of_sources_come_from_files():
    assert source_name("/logs/search 2025.csv.gz") == "search 2025"
    assert source_name("postgresql://u@host/db::public.searches") == "public-searches"
    assert source_name("logs.duckdb::q3") == "logs"


@pytest.mark.slow
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


def _ids(path, name, ids):
    lines = [f"u{i % 9},{('red lamp', 'blue shoes')[i % 2]},{ids[i % len(ids)]}" for i in range(90)]
    path.write_text("\n".join([f"user,query,{name}", *lines]) + "\n")
    return path


@pytest.mark.parametrize("name", ["doc", "DocID", "document_id", "SKU", "product", "article_id"])
def test_clicks_that_are_ids_by_their_name_are_kept_as_they_are(tmp_path, name):
    path = _ids(tmp_path / "log.csv", name, ["aBcD", "abcd", "P-1/2", "4711"])
    made = murmurlog.init(path, out=tmp_path / "murmurlog.toml", ledger=None)
    assert made.inspection.roles["url"] == name
    found = tomllib.loads((tmp_path / "murmurlog.toml").read_text())
    assert {section: found[section]["url"] for section in ("release", "profile", "evaluate")} == {
        "release": "id", "profile": "id", "evaluate": "id",
    }  # fmt: skip
    assert "'url': 'id'" in repr(made)


@pytest.mark.parametrize(
    ("name", "values"), [("doc", ["http://x.com/a?b=1", "x.com/B"]), ("url", ["aBcD", "abcd"])]
)
def test_clicks_that_may_be_urls_are_cut_as_urls(tmp_path, name, values):
    path = _ids(tmp_path / "log.csv", name, values)
    assert "url" not in murmurlog.init(path, out=None, ledger=None).reading


def test_another_column_of_clicks_is_not_taken_for_ids(tmp_path, monkeypatch):
    path = _ids(tmp_path / "log.csv", "page,doc", ["x.com/a,aBcD", "x.com/B,abcd"])
    made = murmurlog.init(path, out=None, ledger=None)
    assert made.reading["columns"]["url"] == "page"
    path = _ids(tmp_path / "ids.csv", "note,doc", ["x,aBcD", "y,abcd"])
    answers = iter(["n", "", "", "", "", "", "note", *[""] * 20])
    monkeypatch.setattr("builtins.input", lambda: next(answers))
    made = murmurlog.init(path, out=None, yes=False, ledger=None)
    assert made.inspection.settings["url"] == "id"
    assert made.reading["columns"]["url"] == "note"
    assert "url" not in made.reading

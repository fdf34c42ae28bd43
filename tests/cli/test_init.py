"""From an own file to a verified bundle: `init` as its owner meets it."""

import json
import subprocess
import tomllib

import pytest
from command import run
from interactive import MURMURLOG, InteractiveCommand
from owner_logs import make_rows, write_log

from murmurlog.bundle.read import load
from murmurlog.publishing.ledger import Ledger


@pytest.fixture
def folder(tmp_path):
    """A folder with 5,000 rows in German, as a spreadsheet of Europe saves them."""
    write_log(tmp_path / "log.csv", list(make_rows(5000)))
    return tmp_path


def settings(folder, name="murmurlog.toml"):
    return tomllib.loads((folder / name).read_text())


def test_three_commands_lead_to_a_verified_bundle(folder):
    started = run("init", "log.csv", "--yes", cwd=folder)
    assert started.returncode == 0, started.stderr
    assert "unreadable 0.0% of 5,000 rows" in started.stdout
    assert "next: murmurlog release log.csv" in started.stderr
    released = run("release", "log.csv", cwd=folder)
    assert released.returncode == 0, released.stderr
    assert "booked" in released.stderr
    verified = run("verify", "bundle", cwd=folder)
    assert verified.returncode == 0, verified.stdout
    queries = load(folder / "bundle").tables["query"]["query"].to_pylist()
    assert "wetter münchen" in queries
    (entry,) = Ledger(folder / "murmurlog-ledger.db", must_exist=True).entries()
    assert (entry.source, entry.epsilon, entry.state) == ("log", 1.0, "committed")


def test_the_settings_say_how_the_log_is_read_and_booked(folder):
    run("init", "log.csv", "--yes", cwd=folder)
    release = settings(folder)
    columns = {"user": "Nutzer", "query": "Suchanfrage", "time": "Zeitpunkt", "url": "Klick"}
    reading = {
        "delimiter": ";",
        "encoding": "latin-1",
        "columns": columns,
        "time-format": "%d.%m.%Y %H:%M",
    }
    booking = {"ledger": "murmurlog-ledger.db", "source": "log"}
    about = {"title": "Search queries of log"}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    assert release == {
        "release": {**budget, **booking, **reading, "about": about},
        "profile": reading,
        "evaluate": reading,
        "sweep": reading,
        "ledger": {"ledger": "murmurlog-ledger.db"},
    }
    (account,) = Ledger(folder / "murmurlog-ledger.db").accounts()
    assert (account.name, account.epsilon_cap, account.delta_cap) == ("log", 3.0, 1e-5)
    looked = run("profile", "log.csv", "--json", cwd=folder)
    assert json.loads(looked.stdout)["rows"] == 5000


def test_values_of_the_log_are_shown_to_its_owner_and_kept_out_of_files_and_json(folder):
    done = run("init", "log.csv", "--yes", "--json", cwd=folder)
    assert "for your eyes only" in done.stderr
    assert "wetter münchen" in done.stderr
    result = json.loads(done.stdout)
    assert "münchen" not in done.stdout
    assert "münchen" not in (folder / "murmurlog.toml").read_text()
    assert result["columns"]["Suchanfrage"] == "query"
    assert (result["rows"], result["broken_share"], result["doubts"]) == (5000, 0.0, [])
    assert result["next"] == "murmurlog release log.csv"


def test_settings_elsewhere_are_named_in_the_next_command(folder):
    (folder / "set up").mkdir()
    done = run("init", "log.csv", "--yes", "--out", "set up/search.toml", cwd=folder)
    assert "next: murmurlog --config 'set up/search.toml' release log.csv" in done.stderr
    release = settings(folder, "set up/search.toml")
    assert release["release"]["ledger"] == "set up/murmurlog-ledger.db"
    ledger = run("--config", "set up/search.toml", "ledger", "show", cwd=folder)
    assert "log" in ledger.stdout


def test_what_was_there_stays(folder):
    (folder / "murmurlog.toml").write_text("[release]\nepsilon = 2\n")
    done = run("init", "log.csv", "--yes", cwd=folder)
    assert (done.returncode, settings(folder)) == (2, {"release": {"epsilon": 2}})
    assert "give --force to replace it" in done.stderr
    Ledger(folder / "murmurlog-ledger.db").cap("log", epsilon=1.5, delta=1e-7)
    (folder / "bundle").mkdir()
    done = run("init", "log.csv", "--yes", "--force", cwd=folder)
    assert done.returncode == 0
    assert 'source "log" keeps its cap' in done.stderr
    assert settings(folder)["release"]["out"] == "bundle-2"
    (account,) = Ledger(folder / "murmurlog-ledger.db").accounts()
    assert account.epsilon_cap == 1.5


def test_a_log_of_the_next_month_gets_no_second_budget(folder):
    """Twelve months of one service are one source, whatever the files are called."""
    write_log(folder / "2025-01.csv", list(make_rows(300)))
    write_log(folder / "2025-02.csv", list(make_rows(300)))
    init = ("init", "2025-02.csv", "--yes", "--force")
    assert run("init", "2025-01.csv", "--yes", cwd=folder).returncode == 0
    second = run(*init, cwd=folder)
    assert second.returncode == 0, second.stderr
    assert 'source "2025-01" keeps its cap' in second.stderr
    misspelled = run(*init, "--source", "2025-10", cwd=folder)
    assert misspelled.returncode == 3
    assert "it has '2025-01'. A new source has a budget of its own" in misspelled.stderr
    added = run(*init, "--new-source", "--source", "staff", cwd=folder)
    assert added.returncode == 0, added.stderr
    several = run(*init, cwd=folder)
    assert several.returncode == 2
    assert "has 2 sources: '2025-01', 'staff'. Name the one" in several.stderr
    chosen = run(*init, "--source", "2025-01", cwd=folder)
    assert chosen.returncode == 0, chosen.stderr
    caps = [account.epsilon_cap for account in Ledger(folder / "murmurlog-ledger.db").accounts()]
    assert (caps, settings(folder)["release"]["source"]) == ([3.0, 3.0], "2025-01")


def test_enter_at_the_keyboard_takes_the_known_source(folder):
    Ledger(folder / "murmurlog-ledger.db").cap("web", epsilon=3, delta=1e-5)
    terminal = InteractiveCommand("init", "log.csv", cwd=folder)
    terminal.answer("Read the log this way?")
    for question in ("Title", "Publisher", "Licence", "Publicly known", "Epsilon of", "Ledger"):
        terminal.answer(question)
    terminal.answer("Name of the source (the population of users) [web]")
    code, _ = terminal.end()
    assert code == 0, terminal.all
    assert [a.name for a in Ledger(folder / "murmurlog-ledger.db").accounts()] == ["web"]


@pytest.mark.parametrize("key", ["new-source", "same-users"])
def test_settings_take_no_decision_about_later_logs(folder, key):
    (folder / "murmurlog.toml").write_text(f"[release]\n{key} = true\n")
    done = run("release", "log.csv", cwd=folder)
    assert done.returncode == 2
    assert f"[release] {key} is a decision about one command" in done.stderr


def test_without_a_terminal_it_says_so(folder):
    done = subprocess.run(
        [*MURMURLOG, "init", "log.csv"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "there is no terminal to answer them: give --yes" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["log.csv"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.csv"], 4, "there is no file or folder 'missing.csv'"),
        (["log.csv", "--out", "settings.txt"], 2, "must end in .toml"),
        (["log.csv", "--out", "nowhere/a.toml"], 2, "there is no folder 'nowhere'"),
        (["sheet.xlsx"], 4, "spreadsheet"),
        (["bare.csv"], 4, "has no header"),
    ],
)
def test_mistakes_are_explained_and_write_nothing(folder, arguments, code, message):
    (folder / "sheet.xlsx").write_bytes(b"PK\x03\x04")
    write_log(folder / "bare.csv", list(make_rows()), header=None)
    before = sorted(folder.iterdir())
    done = run("init", *arguments, "--yes", cwd=folder)
    assert (done.returncode, sorted(folder.iterdir())) == (code, before)
    assert message in done.stderr


def test_rows_that_a_release_would_lose_are_counted_with_reasons(folder):
    lines = [(user if n % 3 else "", query, time, url) for n, (user, query, time, url) in enumerate(make_rows(300))]  # fmt: skip
    write_log(folder / "holes.csv", lines)
    done = run("init", "holes.csv", "--yes", cwd=folder)
    assert "unreadable 33.3% of 300 rows: 100 x no user" in done.stdout
    assert "a release stops if more than 20% are (--max-broken)" in done.stdout


def test_questions_are_answered_at_the_keyboard(folder):
    terminal = InteractiveCommand("init", "log.csv", cwd=folder)
    terminal.answer("Read the log this way?")
    terminal.answer("Title", "Suchen der Stadtbücherei")
    terminal.answer("Publisher", "Stadtbücherei")
    terminal.answer("Licence", "CC-BY-4.0")
    terminal.answer("Publicly known", "many")
    terminal.answer("Publicly known", "2000000")
    terminal.answer("Epsilon of each release", "0.5")
    terminal.answer("Ledger file")
    terminal.answer("Name of the source", "bücherei")
    terminal.answer("Cap: epsilon", "0.1")  # less than a release costs
    terminal.answer("does not fit a cap", "2")
    terminal.answer("Cap: delta")
    code, _ = terminal.end()
    assert code == 0, terminal.all
    release = settings(folder)["release"]
    about = {
        "title": "Suchen der Stadtbücherei",
        "publisher": "Stadtbücherei",
        "license": "CC-BY-4.0",
    }
    assert release["about"] == about
    assert (release["users"], release["epsilon"], release["delta"]) == (2_000_000, 0.5, 5e-9)
    (account,) = Ledger(folder / "murmurlog-ledger.db").accounts()
    assert (account.name, account.epsilon_cap, account.delta_cap) == ("bücherei", 2.0, 5e-8)


@pytest.mark.slow
def test_what_the_rows_leave_open_is_asked(folder):
    write_log(folder / "day.csv", list(make_rows(time="%d/%m/%Y %H:%M", days=9)))
    terminal = InteractiveCommand("init", "day.csv", "--json", cwd=folder)
    terminal.answer("Format of times", "2")
    terminal.answer("Read the log this way?", "n")
    terminal.answer("Encoding")
    terminal.answer("Delimiter", "semicolon")
    for role in ("user", "query", "time"):
        terminal.answer(f"Column of the {role}")
    terminal.answer("Column of the url", "none")
    terminal.answer("Column of the rank", "Zeit")  # no such column
    terminal.answer("columns are", "none")
    terminal.answer("Format of times")
    terminal.answer("Read the log this way?")
    for question in ("Title", "Publisher", "Licence", "Publicly known", "Epsilon of"):
        terminal.answer(question)
    terminal.answer("Ledger file", "-")
    code, out = terminal.end()
    assert code == 0, terminal.all
    result = json.loads(out)
    assert result["settings"]["release"]["time-format"] == "%m/%d/%Y %H:%M"
    assert result["settings"]["release"]["columns"]["url"] == "none"
    assert "ledger" not in result["settings"]["release"]
    assert not (folder / "murmurlog-ledger.db").exists()


def test_ctrl_c_writes_nothing(folder):
    terminal = InteractiveCommand("init", "log.csv", cwd=folder)
    terminal.answer("Read the log this way?")
    terminal.interrupt("Title")
    code, _ = terminal.end()
    assert code == 130
    assert "stopped: nothing was written" in terminal.all
    assert "Traceback" not in terminal.all
    assert [path.name for path in folder.iterdir()] == ["log.csv"]


def test_the_settings_that_apply_are_named_as_they_are_written(folder):
    run("init", "log.csv", "--yes", cwd=folder)
    line = run("release", "log.csv", "--dry-run", cwd=folder).stderr.splitlines()[0]
    assert line.startswith("settings from murmurlog.toml")
    assert line.endswith("epsilon, delta, ledger, source, delimiter, encoding, columns, time-format, about")  # fmt: skip
    assert run("ledger", "show", cwd=folder).stderr.splitlines()[0].endswith(": ledger")


def test_a_wide_and_short_file_with_line_breaks_is_shown_in_a_few_lines(tmp_path):
    names = ["user", "query", *(f"feature_{n}" for n in range(100))]
    record = ['"a\nb"', '"x\n  unreadable 9%"', *("1",) * 100]
    (tmp_path / "log.csv").write_text(f"{','.join(names)}\n{','.join(record)}\n")
    lines = run("init", "log.csv", "--yes", cwd=tmp_path).stdout.splitlines()
    assert "  and 80 more columns that are not used" in lines
    assert [line for line in lines if line.startswith("  unreadable")] == ["  unreadable 0.0% of 1 rows"]  # fmt: skip
    assert lines[-1].endswith("expect little or nothing")

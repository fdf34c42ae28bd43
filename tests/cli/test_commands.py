"""The command line as a user meets it: output, messages, exit codes, nothing left behind."""

import csv
import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import run
from quick_cases import sample_cases

import murmurlog.cli.main as entry
from murmurlog.cli.app import app
from murmurlog.cli.options import Number
from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy import Guarantee
from murmurlog.publishing.ledger import Ledger

MURMURLOG = Path(sys.executable).with_name("murmurlog")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with an invented log of 3,000 users."""
    folder = tmp_path_factory.mktemp("place")
    write(invent(rows=120_000, seed=4), folder / "log.parquet")
    return folder


def test_plan_prints_the_thresholds_of_the_paper_setting(place):
    best = {"geometric": (6, 29, 59, 104, 160, 239, 355), "gaussian": (9, 20, 28, 40, 58, 83, 120)}
    for noise, thresholds in best.items():
        d, T = 20, thresholds[3]
        done = run(
            *("plan", "--mechanism", "threshold", "--epsilon", "ln(10)", "--delta", "1e-5"),
            *("--per-user", d, "--noise", noise, "--json"),
            cwd=place,
        )
        assert done.returncode == 0, done.stderr
        planned = json.loads(done.stdout)
        assert planned["threshold"] <= T
        assert planned["guarantee"]["epsilon"] == pytest.approx(math.log(10))
        assert planned["guarantee"]["delta"] <= 1e-5
        assert planned["scale"] > 0
        assert list(planned["passes"]) == ["0.5", "0.95", "0.99"]
        assert planned["passes"]["0.5"] == planned["threshold"]


def test_profile_release_verify_and_ledger(place, tmp_path):
    profile = json.loads(run("profile", place / "log.parquet", "--json", cwd=tmp_path).stdout)
    keys = {"rows", "users", "shape", "columns", "proposed", "broken"}
    keys |= {"screened", "items_per_user"}
    assert set(profile) == keys
    assert profile["rows"] == 120_000
    assert profile["users"] == 3_000
    assert set(profile["items_per_user"]["query"]) == {"mean", "p50", "p99"}

    cap = run(
        "ledger", "cap", "web", "--epsilon", 5, "--delta", "1e-5", "--ledger", "l.db", cwd=tmp_path
    )
    assert cap.returncode == 0
    arguments = (
        *("release", place / "log.parquet", "--tables", "query,click", "--epsilon", 3),
        *(
            "--delta",
            "1e-6",
            "--per-user",
            "query=5,click=3",
            "--ledger",
            "l.db",
            "--source",
            "web",
        ),
    )
    done = run(*arguments, "--out", "first", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["guarantee"]["epsilon"] == 3.0
    assert set(result["guarantee"]) == {"epsilon", "delta", "unit", "neighbours", "notion"}
    assert result["tables"]["query"]["rows"] > 10
    assert result["tables"]["click"]["parameters"]["per_user"] == 3
    assert result["booked"] is True
    assert result["out"] == "first"

    verified = run("verify", "first", "--ledger", "l.db", "--json", cwd=tmp_path)
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["ok"] is True

    refused = run(*arguments, "--out", "second", cwd=tmp_path)
    assert refused.returncode == 3
    assert re.search(r"refused \(3\): this release needs \d+ % of the noise budget", refused.stderr)
    assert re.search(r"Try --of-cap 0\.\d+, or raise the cap", refused.stderr)
    assert not (tmp_path / "second").exists()

    statement = json.loads(run("ledger", "show", "--ledger", "l.db", "--json", cwd=tmp_path).stdout)
    assert statement["sources"][0]["rule"] == "filter"
    assert 0 < statement["sources"][0]["left"]["mu2"] < statement["sources"][0]["spent"]["mu2"]
    assert [entry["state"] for entry in statement["entries"]] == ["committed"]
    exported = run("ledger", "export", "--ledger", "l.db", cwd=tmp_path).stdout
    (row,) = csv.DictReader(io.StringIO(exported))
    assert row["release_id"] == statement["entries"][0]["release_id"]
    assert "web" in run("ledger", "show", "--ledger", "l.db", cwd=tmp_path).stdout

    (tmp_path / "first" / "data" / "query.parquet").write_bytes(b"x")
    corrupt = run("verify", "first", cwd=tmp_path)
    assert corrupt.returncode == 6
    assert "FAILED files: the checksum is wrong" in corrupt.stdout


def test_words_go_to_stderr_and_no_raw_query_is_printed(place, tmp_path):
    done = run("release", place / "log.parquet", "--out", "b", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "together: epsilon 1, delta 1e-06 per user, add-remove" in done.stderr
    assert "not booked" in done.stderr
    assert "declare one with --users" in done.stderr
    assert "weather" not in done.stderr


def test_the_owner_is_told_what_was_left_out(tmp_path):
    (tmp_path / "log.csv").write_text("user,query\na,x\n,x\nb,mail me@example.com\n")
    done = run("release", "log.csv", "--out", "b", "--max-broken", 0.5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = "rows not used as they are (for your eyes only): 1 x no user, 1 x screened: email"
    assert line in done.stderr
    assert "me@example.com" not in done.stderr


def test_an_empty_release_says_why(place, tmp_path):
    done = run("release", place / "log.parquet", "--epsilon", 0.01, "--out", "b", cwd=tmp_path)
    assert done.returncode == 0
    assert "verdict: query: nothing was published" in done.stderr
    assert "An item needs about" in done.stderr
    assert "from the shape of a generated log" in done.stderr
    assert "epsilon 0.02 instead of 0.01: about" in done.stderr
    assert run("verify", "b", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("release", "none.csv"), 4, "input (4): there is no file or folder 'none.csv'"),
        (
            ("release", "cols.csv"),
            4,
            'no column of cols.csv looks like "user". Found: who, what. Map it',
        ),
        (("release", "empty.csv"), 4, "empty.csv is empty"),
        (("release", "good.csv", "--frobnicate"), 2, "No such option '--frobnicate'"),
        (
            ("release", "good.csv", "--epsilon", "0"),
            2,
            "usage (2): epsilon must be a positive number",
        ),
        (("release", "good.csv", "--epsilon", "much"), 2, "'much' is no number"),
        (("release", "good.csv", "--delta", "2"), 2, "delta must lie between 0 and 1"),
        (("release", "good.csv", "--out", "taken"), 2, "--out 'taken' exists"),
        (
            ("release", "good.csv", "--per-user", "few"),
            2,
            "--per-user takes 20 or query=20,click=10",
        ),
        (("release", "good.csv", "--tables", "query,pages"), 2, "unknown table 'pages'"),
        (("release", "good.csv", "--columns", "user"), 2, "--columns takes name=value"),
        (("release", "good.csv", "--engine", "spark"), 5, "engine (5): --engine spark needs Spark"),
        (("release", "good.csv", "--users", "2000000"), 3, "at least 1/users"),
        (("release", "good.csv", "--seed", "1"), 2, "No such option '--seed'"),
        (("release", "good.csv", "--memory", "lots"), 2, "--memory 'lots' is not a size"),
        (("release", "broken.csv", "--strict"), 4, "2 broken rows"),
        (("verify", "taken"), 6, "is no bundle"),
        (("ledger", "show"), 2, "Give --ledger FILE"),
        (("ledger", "show", "--ledger", "none.db"), 2, "there is no ledger"),
        (("plan", "--set", "K=2"), 2, "missing parameter scale"),
        (("generate", "--rows", "0", "--out", "x.csv"), 2, "--rows must be at least 1"),
        (("generate", "--rows", "5", "--out", "x.doc"), 2, "cannot write x.doc: a log can be"),
        (("generate", "--rows", "5", "--out", "good.csv"), 2, "good.csv exists"),
        (("demo", "--out", "taken"), 2, "--out 'taken' exists"),
        (("nonsense",), 2, "No such command 'nonsense'"),
        (("generate", "--rows", "5", "--seed", "-1", "--out", "x.csv"), 2, "must not be negative"),
        (("plan", "--per-user", "query=2"), 2, "plan is for one table"),
        (("release", "good.csv", "--about", "title"), 2, "--about takes name=value"),
    ],
)
def test_bad_input_names_the_cause_and_leaves_nothing(
    tmp_path, arguments, code, message, monkeypatch, capsys
):
    (tmp_path / "good.csv").write_text("user,query\na,x\nb,x\n")
    (tmp_path / "broken.csv").write_text("user,query\na,x\n,x\nb,\n")
    (tmp_path / "cols.csv").write_text("who,what\na,x\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "taken").mkdir()
    before = sorted(tmp_path.rglob("*"))
    # In this process: forty starts of the interpreter would take a minute.
    monkeypatch.chdir(tmp_path)
    for name in ("pyspark", "pyspark.sql"):  # not installed, wherever the test runs
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys, "argv", ["murmurlog", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    words = capsys.readouterr().err
    assert stopped.value.code == code, words
    assert message in words
    assert "Traceback" not in words
    assert sorted(tmp_path.rglob("*")) == before


def test_flags_win_over_variables_and_those_over_the_file(tmp_path):
    (tmp_path / "murmurlog.toml").write_text(
        '[plan]\nepsilon = 2\nper-user = 7\nnoise = "geometric"\n'
    )

    def planned(*arguments, **env):
        done = run("plan", "--json", *arguments, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    from_file = planned()
    assert (from_file["guarantee"]["epsilon"], from_file["per_user"]) == (2.0, 7)
    assert from_file["noise"] == "geometric"
    assert planned(MURMURLOG_EPSILON="3")["guarantee"]["epsilon"] == 3.0
    assert planned("--epsilon", "4", MURMURLOG_EPSILON="3")["guarantee"]["epsilon"] == 4.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[plan]\nepsilom = 1\n", "murmurlog.toml: [plan] has no setting 'epsilom'"),
        ("[plam]\nepsilon = 1\n", "[plam] is no command"),
        ("epsilon", "murmurlog.toml is not TOML"),
    ],
)
def test_a_bad_settings_file_is_named(tmp_path, text, message):
    (tmp_path / "murmurlog.toml").write_text(text)
    done = run("plan", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_settings_for_columns_and_tables(place, tmp_path):
    (tmp_path / "murmurlog.toml").write_text(
        '[release]\ntables = ["query"]\nper-user = 4\nepsilon = 3\n'
        '[release.columns]\nuser = "user"\nquery = "query"\n'
    )
    done = run("release", place / "log.parquet", "--out", "b", "--dry-run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["tables"]) == ["query"]


def test_demo_with_a_seed_is_marked_as_not_private(tmp_path):
    done = run("demo", "--rows", 60_000, "--seed", 3, "--out", "d", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "NOT private" in done.stdout
    assert "ledger" not in done.stdout
    assert not (tmp_path / "d" / "ledger.db").exists()
    assert run("verify", "d/bundle", cwd=tmp_path).returncode == 1


def test_demo_ends_with_a_verified_bundle(tmp_path):
    done = run("demo", "--rows", 60_000, "--out", "d", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verify"]["ok"] is True
    assert result["release"]["booked"] is True


def test_hostile_names_are_printed_as_they_are(tmp_path):
    (tmp_path / "odd.csv").write_text("user,[/q]\na,x\n")
    done = run("profile", "odd.csv", "--columns", "query=[/q]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "query=[/q]" in done.stdout
    done = run("release", "odd.csv", "--columns", "query=[/q]", "--out", "o[red]", cwd=tmp_path)
    assert "wrote o[red]; check it" in done.stderr
    assert (tmp_path / "o[red]").is_dir()


def test_a_reader_that_leaves_changes_no_exit_code(place):
    script = f"'{MURMURLOG}' plan --json | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", script], cwd=place).returncode == 0


def test_a_reader_of_the_words_that_leaves_does_not_end_a_release(tmp_path):
    (tmp_path / "log.csv").write_text("user,query\n1,weather\n2,news\n")
    script = f"'{MURMURLOG}' release log.csv --out b 2>&1 | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path).returncode == 0
    assert (tmp_path / "b" / "privacy.json").is_file()


def test_a_large_delta_is_warned_about_in_plan(tmp_path):
    done = run("plan", "--set", "T=5,b=1.35", "--per-user", 1, cwd=tmp_path)
    assert "warning: delta 0.035 is large" in done.stderr


@pytest.mark.parametrize(("command", "unit"), [("release", "row"), ("plan", "session")])
def test_a_row_or_a_session_is_no_unit_of_privacy(tmp_path, command, unit):
    flags = {"release": ("no.csv", "--out", "b"), "plan": ()}
    ledger = () if command == "plan" else ("--ledger", "l.db", "--source", "web", "--new-source")
    done = run(command, *flags[command], *ledger, "--unit", unit, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    message = " ".join(done.stderr.split())
    assert f"unknown unit '{unit}': use one of user, user-month, user-week, user-day." in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flags", [("--screen",), ("--no-screen",), ("--deny", "no.txt")])
def test_a_profile_drops_no_row(tmp_path, flags):
    done = run("profile", "no.csv", *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert "a profile drops no row: leave --" in done.stderr


def test_a_single_row_is_no_unit_of_privacy_in_settings_either(tmp_path):
    (tmp_path / "murmurlog.toml").write_text('[release]\nunit = "row"\n')
    done = run("release", "no.csv", "--out", "b", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "unknown unit 'row': use one of user" in " ".join(done.stderr.split())


def test_settings_of_a_group_and_texts_with_commas(place, tmp_path):
    (tmp_path / "murmurlog.toml").write_text(
        '[ledger]\nledger = "l.db"\n[release]\nepsilon = 3\n[release.about]\ntitle = "Shoes, and more"\n'
    )
    cap = run("ledger", "cap", "web", "--epsilon", 5, "--delta", "1e-5", cwd=tmp_path)
    assert cap.returncode == 0, cap.stderr
    assert "web" in run("ledger", "show", cwd=tmp_path).stdout
    done = run("release", place / "log.parquet", "--out", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "# Shoes, and more" in (tmp_path / "b" / "README.md").read_text()


NEEDED = {  # what a command asks for before it reads the values of its groups
    "release": ("log.parquet",),
    "profile": ("log.parquet",),
    "evaluate": ("log.parquet",),
    "sweep": ("log.parquet", "--mechanisms", "rounds", "--vary", "epsilon=1"),
}


def numeric_flags(group, before=()):
    """(command, flag) of every flag that takes a number, by the word for its value."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from numeric_flags(command, (*before, name))
            continue
        for parameter in command.params:
            numeric = isinstance(parameter.type, Number) or parameter.metavar in ("N", "X")
            if numeric and parameter.section != "Mechanisms":
                yield (*before, name), parameter.opts[0]


NUMERIC = list(numeric_flags(app))


def test_numeric_flags_are_found():
    assert (("ledger", "cap"), "--epsilon") in NUMERIC
    assert (("release",), "--users") in NUMERIC
    assert len(NUMERIC) > 35


@pytest.mark.parametrize(("command", "flag"), sample_cases(NUMERIC, every=3))
def test_no_flag_takes_for_a_number_what_only_python_does(command, flag, tmp_path):
    for text in ("1_0", "inf", "nan", "\u0661", "\uff11", "0x10", "1e999"):
        done = run(*command, *NEEDED.get(command[0], ()), flag, text, cwd=tmp_path)
        assert done.returncode == 2
        assert repr(text) in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--per-user", "1_0"),
        ("--per-user", "query=1_0"),
        ("--gap", "1_0m"),
        ("--shares", "query=1_0"),
        ("--epsilon", "ln(1_0)"),
        ("--epsilon", "ln(inf)"),
        ("--set", "d=1_0,scale=3,T=5", "--mechanism", "threshold"),
        ("--mechanism", "threshold(d=1_0, scale=3, T=5)"),
    ],
)
def test_no_number_inside_a_flag_has_an_underscore(place, tmp_path, arguments):
    done = run("release", place / "log.parquet", *arguments, "--out", "b", cwd=tmp_path)
    assert done.returncode == 2
    assert "1_0" in done.stderr or "inf" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [":memory:", "file:l.db?mode=memory"])
def test_a_ledger_with_a_name_that_sqlite_knows_books_all_the_same(place, tmp_path, name):
    cap = ("ledger", "cap", "web", "--epsilon", 1, "--delta", "1e-5", "--ledger", name)
    assert run(*cap, cwd=tmp_path).returncode == 0
    done = run(
        *("release", place / "log.parquet", "--tables", "query", "--mechanism", "threshold"),
        *("--epsilon", 3, "--ledger", name, "--source", "web", "--out", "b"),
        cwd=tmp_path,
    )
    assert done.returncode == 3, done.stderr
    assert "of the noise budget (100 % is left)" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_names_in_the_ledger_are_told_as_they_are_booked(tmp_path):
    cap = ("--epsilon", 1, "--delta", "1e-5", "--ledger", "l.db", "--json")
    done = run("ledger", "cap", " cafe\u0301 ", *cap, cwd=tmp_path)
    assert json.loads(done.stdout)["source"] == "caf\u00e9"
    done = run("ledger", "cap", "CAF\u00c9", *cap, cwd=tmp_path)
    assert done.returncode == 2
    assert "but it has 'caf\u00e9': use that name" in done.stderr
    done = run("ledger", "cap", "a\nb", *cap, cwd=tmp_path)
    assert done.returncode == 2
    assert "write one plain line" in done.stderr


LOOPS = [
    ("ledger", "cap", "web", "--epsilon", "1", "--delta", "1e-5", "--ledger", "loop"),
    ("ledger", "show", "--ledger", "loop"),
    ("release", "LOG", "--out", "b", "--ledger", "loop", "--source", "web"),
    ("release", "LOG", "--out", "loop"),
    ("release", "LOG", "--out", "loop/b"),
    ("release", "loop", "--out", "b"),
    ("release", "loop.parquet", "--out", "b"),
    ("profile", "loop"),
    ("generate", "--rows", "10", "--out", "loop.parquet"),
    ("generate", "--rows", "10", "--like", "aol", "--out", "a.csv", "--labels", "loop"),
    ("evaluate", "LOG", "--bundle", "loop"),
]


@pytest.mark.parametrize("arguments", LOOPS, ids=" ".join)
def test_a_loop_of_links_is_the_users_mistake(place, tmp_path, arguments):
    for name in ("loop", "loop.parquet"):
        (tmp_path / name).symlink_to(name)
    words = [place / "log.parquet" if a == "LOG" else a for a in arguments]
    done = run(*words, cwd=tmp_path)
    assert done.returncode in (2, 4, 6), done.stderr
    assert done.returncode != 6 or "evaluate" in arguments  # a bundle that is none
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loop", "loop.parquet"]


def test_version_and_help(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.startswith("murmurlog 0.")
    assert "release" in run("--help", cwd=tmp_path).stdout


def test_an_error_of_our_own_is_70_without_content(tmp_path, monkeypatch, capsys):
    def broken(**_):
        raise RuntimeError("secret query")

    monkeypatch.setattr(entry.app, "main", broken)
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    assert stopped.value.code == 70
    printed = capsys.readouterr().err
    assert "internal (70): RuntimeError" in printed
    assert "secret" not in printed


def test_the_commands_on_caps_say_what_they_did(tmp_path):
    at = ("--ledger", "l.db")
    cap = ("ledger", "cap", "web", "--delta", "1e-5", *at)
    assert run(*cap, "--epsilon", 2, cwd=tmp_path).returncode == 0
    raised = run(*cap, "--epsilon", 3, cwd=tmp_path)
    assert raised.returncode == 2
    assert "needs a reason, which the ledger keeps: give --reason" in raised.stderr
    done = run(*cap, "--epsilon", 3, "--reason", "more", "--by-whom", "J", "--json", cwd=tmp_path)
    change = json.loads(done.stdout)
    assert (change["epsilon_before"], change["epsilon"], change["by_whom"]) == (2.0, 3.0, "J")
    again = run(*cap, "--epsilon", 3, cwd=tmp_path)
    assert "nothing was changed" in again.stderr
    near = run("ledger", "cap", "wbe", "--epsilon", 1, "--delta", "1e-5", *at, cwd=tmp_path)
    assert near.returncode == 3
    assert "did you mean 'web'? Nothing was changed." in near.stderr
    near = run("ledger", "cap", "wbe", "--epsilon", 1, "--delta", "1e-5", "--new-source", *at, cwd=tmp_path)  # fmt: skip
    assert near.returncode == 0, near.stderr
    cost = Guarantee(epsilon=0.5, delta=1e-6)
    Ledger(tmp_path / "l.db").reserve("web", cost, release_id="one", what="x")
    lower = run(*cap, "--epsilon", 1, cwd=tmp_path)
    assert "more than this cap allows is spent already: every further release" in lower.stderr


def test_the_commands_on_required_caps_and_statements(place, tmp_path):
    at = ("--ledger", "l.db")
    assert run("ledger", "require-cap", "--off", *at, cwd=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []
    required = run("ledger", "require-cap", *at, "--json", cwd=tmp_path)
    assert json.loads(required.stdout) == {"cap_required": True, "changed": True}
    release = ("release", place / "log.parquet", "--out", "b", *at, "--source", "web")
    refused = run(*release, "--new-source", cwd=tmp_path)
    assert refused.returncode == 3
    assert 'source "web" has no cap, and l.db requires one' in refused.stderr
    ended = run("ledger", "require-cap", "--off", *at, cwd=tmp_path)
    assert ended.returncode == 2
    assert "ending that needs a reason" in ended.stderr
    assert run("ledger", "require-cap", "--off", "--reason", "x", *at, cwd=tmp_path).returncode == 0
    unknown = run("ledger", "statement", "web", "--out", "s.html", *at, cwd=tmp_path)
    assert unknown.returncode == 2
    assert "there is no source 'web' in l.db" in unknown.stderr
    Ledger(tmp_path / "l.db").cap("web", epsilon=1, delta=1e-5)
    assert run("ledger", "statement", "web", "--out", "s.html", *at, cwd=tmp_path).returncode == 0
    assert "Signature" in (tmp_path / "s.html").read_text()

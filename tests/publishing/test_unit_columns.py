"""The columns of a log that decide what a unit is: releases by others do not add up unless the owner says so."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from command import run

import murmurlog
from murmurlog.errors import Refused, UsageError
from murmurlog.privacy import Guarantee, Loss
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_file import VERSION
from murmurlog.publishing.ledger_statement import as_html, as_text

GOLDEN = Path(__file__).parents[1] / "golden"
COST = Guarantee(epsilon=0.1, delta=1e-7)


@pytest.fixture
def book(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=20, delta=1e-3)
    return book


@pytest.fixture
def log():
    """300 accounts, each with two cookies, and two columns of times."""
    number = range(600)
    return pd.DataFrame(
        {
            "account": [f"a{n // 2}" for n in number],
            "cookie": [f"c{n}" for n in number],
            "asked_at": pd.Timestamp("2026-01-01"),
            "stored_at": pd.Timestamp("2026-02-01"),
            "query": "weather",
        }
    )


@pytest.fixture
def release(log, book, tmp_path):
    count = 0

    def make(user="account", time="asked_at", **asked):
        nonlocal count
        count += 1
        asked = {"tables": ["query"], "epsilon": 1.0, "delta": 1e-6, **asked}
        return murmurlog.release(
            log, out=tmp_path / f"bundle{count}", columns={"user": user, "time": time},
            ledger=book.path, source_name="web", **asked,
        )  # fmt: skip

    return make


def test_a_release_by_another_column_of_users_is_refused_before_it_is_booked(
    release, book, tmp_path
):
    release(user="account")
    for dry_run in (True, False):
        with pytest.raises(Refused, match="user column 'account', and this one is by 'cookie'"):
            release(user="cookie", dry_run=dry_run)
    assert [entry.user_column for entry in book.entries()] == ["account"]
    assert [each.name for each in tmp_path.glob("bundle*")] == ["bundle1"]


def test_the_owners_word_books_it_and_holds_from_then_on(release, book):
    release(user="account")
    release(user="cookie", same_users=True)
    release(user="account")
    release(user="cookie")
    assert [entry.user_column for entry in book.entries()] == ["account", "cookie"] * 2
    line = "users     in column 'account'; the same by the owner's word: 'cookie'"
    assert line in as_text(book.contents(), "ledger.db")
    page = as_html(book.contents(), "web", ledger="ledger.db", day="2026-11-16")
    assert "the same by the owner" in page


TIMED = {
    "days": {"unit": "user-day"},
    "weeks": {"unit": "user-week"},
    "months": {"unit": "user-month"},
    "windows": {"count_from": "2026-01-01"},
}


@pytest.mark.parametrize("asked", TIMED.values(), ids=TIMED)
def test_the_column_of_times_counts_where_time_decides_what_a_unit_is(release, book, asked):
    release(time="stored_at", **asked)
    with pytest.raises(Refused, match="time column 'stored_at', and this one is by 'asked_at'"):
        release(time="asked_at", **asked)
    release(time="asked_at", same_users=True, **asked)
    assert [entry.time_column for entry in book.entries()] == ["stored_at", "asked_at"]


def test_of_users_time_has_no_say(release, book):
    release(time="asked_at")
    release(time="stored_at")
    assert [entry.time_column for entry in book.entries()] == [None, None]


def test_two_releases_at_once_do_not_both_choose_the_column(book):
    book.check("web", COST, columns={"user": "cookie"})
    book.reserve("web", COST, release_id="a", what="x", columns={"user": "account"})
    with pytest.raises(Refused, match="'account', and this one is by 'cookie'"):
        book.reserve("web", COST, release_id="b", what="x", columns={"user": "cookie"})
    assert len(book.entries()) == 1


def test_a_ledger_of_version_5_does_not_know_its_columns_and_takes_any(tmp_path):
    book = Ledger(Path(shutil.copyfile(GOLDEN / "ledger-5.db", tmp_path / "ledger.db")))
    before = book.entries()
    assert {(entry.user_column, entry.time_column) for entry in before} == {(None, None)}
    loss = Loss(mu=0.01, keys=1e-8)
    asked = {"what": "x", "loss": loss}
    book.reserve("search-2026", COST, release_id="a", columns={"user": "uid"}, **asked)
    assert book.entries()[:-1] == before
    with pytest.raises(Refused, match="'uid', and this one is by 'cookie'"):
        book.reserve("search-2026", COST, release_id="b", columns={"user": "cookie"}, **asked)
    assert VERSION >= 6


def test_a_bundle_does_not_say_how_the_column_is_called(release, tmp_path):
    release(user="cookie")
    for file in (tmp_path / "bundle1").rglob("*"):
        assert file.is_dir() or b"cookie" not in file.read_bytes()


def test_the_word_needs_a_ledger(log, tmp_path):
    with pytest.raises(UsageError, match="--same-users is about a source of a ledger"):
        murmurlog.release(log, out=tmp_path / "b", columns={"user": "account"}, same_users=True)


def test_a_series_says_so_and_goes_on_with_the_owners_word(tmp_path):
    (tmp_path / "logs").mkdir()
    for month, user in (("2026-01", "account"), ("2026-02", "cookie")):
        rows = "".join(f"u{n},weather,{month}-01 10:00:00\n" for n in range(200))
        (tmp_path / "logs" / f"{month}.csv").write_text(f"{user},query,time\n{rows}")
    started = run(
        "series", "init", "s.toml", "--logs", "logs/{period}.csv", "--source", "web", "--first", "2026-01",
        "--last", "2026-02", "--select", "period", "--epsilon", "3", "--delta", "1e-5", "--reason", "x",
        cwd=tmp_path,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    spec = tmp_path / "s.toml"
    spec.write_text(spec.read_text() + 'columns = { user = "account" }\n')
    assert run("series", "run", "s.toml", "--once", cwd=tmp_path).returncode == 0
    spec.write_text(spec.read_text().replace('"account"', '"cookie"'))
    refused = run("series", "run", "s.toml", cwd=tmp_path)
    assert refused.returncode == 3
    assert "'account', and this one is by 'cookie'" in refused.stderr
    states = run("series", "status", "s.toml", cwd=tmp_path).stdout.splitlines()
    assert states[1].split()[:2] == ["2026-02", "due"]
    done = run("series", "run", "s.toml", "--same-users", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

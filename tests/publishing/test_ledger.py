"""The ledger: reserve, commit, refuse; two at once cannot overspend; it fails closed."""

import math
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from threading import Barrier

import pytest

import murmurlog
from murmurlog.errors import Refused, UsageError
from murmurlog.privacy import Guarantee
from murmurlog.privacy.budget_filter import fits, sum_of
from murmurlog.publishing.ledger import Ledger, os_user

COST = Guarantee(
    epsilon=0.25, delta=1e-7
)  # booked as pure epsilon: a cap keeps a third of epsilon for it


@pytest.fixture
def book(tmp_path):
    return Ledger(tmp_path / "ledger.db")


def test_a_reservation_is_spent_before_it_is_committed(book):
    book.cap("web", epsilon=3, delta=1e-5)
    before = book.reserve("web", COST, release_id="one", what="threshold")
    assert (before.booked.pure, before.releases) == (0, 0)
    (account,) = book.accounts()
    assert (account.booked.pure, account.releases) == (0.25, 1)
    assert account.booked.keys == pytest.approx(1e-7)
    assert book.find("one").state == "reserved"
    book.commit("one")
    assert book.find("one").state == "committed"
    assert book.accounts()[0].booked == account.booked


def test_what_does_not_fit_is_refused_with_the_numbers(book):
    book.cap("web", epsilon=1.875, delta=1e-5)
    for name in ("one", "two"):
        book.reserve("web", COST, release_id=name, what="x")
    message = (
        r"needs 40 % of the epsilon for pure releases \(20 % is left\) on source \"web\" \(2 releases so far\)."
        r"\n  Try --epsilon 0.125, or raise the cap: murmurlog ledger cap web"
    )
    with pytest.raises(Refused, match=message):
        book.reserve("web", COST, release_id="three", what="x")
    assert len(book.entries()) == 2
    book.cap("tight", epsilon=10, delta=1e-7)
    with pytest.raises(Refused, match="needs 250 % of the chance that keys show"):
        book.check("tight", COST)


def test_three_thirds_fit_a_pure_part_of_one(book):
    book.cap("web", epsilon=3, delta=1e-4)
    third = Guarantee(epsilon=1 / 3, delta=1e-6)
    for i in range(3):
        book.reserve("web", third, release_id=str(i), what="x")
    with pytest.raises(Refused, match="0 % is left"):
        book.reserve("web", third, release_id="more", what="x")


def test_sixteen_at_once_cannot_overspend(book):
    book.cap("web", epsilon=3, delta=1e-4)

    def one(i):
        try:
            Ledger(book.path).reserve("web", COST, release_id=str(i), what="x")
        except Refused:
            return 0
        return 1

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(one, range(16))) == 4
    assert book.accounts()[0].booked.pure == 1


def test_a_booking_outlasts_a_loss_of_power(book):
    """A commit removes SQLite's journal; unless the folder is synced as well, it can come back."""
    book.cap("web", epsilon=3, delta=1e-5)
    with book._transaction() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)


def test_a_source_has_one_unit(book):
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    day = Guarantee(epsilon=1, delta=1e-6, unit="user-day")
    with pytest.raises(Refused, match=r"accounted per user \(add-remove\); a release per user-day"):
        book.reserve("web", day, release_id="two", what="x", new_source=True)
    book.reserve("days", day, release_id="two", what="x", new_source=True)


def test_a_release_is_booked_once(book):
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    with pytest.raises(Refused, match="nothing can be booked"):
        book.reserve("web", COST, release_id="one", what="x", new_source=True)
    with pytest.raises(Refused, match="no entry nobody to commit"):
        book.commit("nobody")


def test_a_ledger_that_cannot_be_read_refuses(tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is not a database, and it is long enough to be sure" * 20)
    with pytest.raises(Refused, match=r"ledger.db cannot be used .* restore it from a backup"):
        Ledger(path).accounts()


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "music.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE songs (title TEXT)")
    before = path.read_bytes()
    for use in (Ledger(path).accounts, lambda: Ledger(path).cap("web", epsilon=1, delta=1e-6)):
        with pytest.raises(Refused, match="a database of another program"):
            use()
    assert path.read_bytes() == before


def test_looking_makes_no_file(book):
    assert book.accounts() == []
    book.check("web", COST, new_source=True)
    assert not book.path.exists()


def test_a_locked_ledger_refuses_in_the_end(book, monkeypatch):
    monkeypatch.setattr("murmurlog.publishing.ledger_file.WAIT_SECONDS", 0.1)
    book.cap("web", epsilon=3, delta=1e-5)
    holder = sqlite3.connect(book.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Refused, match="locked"):
        book.check("web", COST)
    holder.close()
    book.check("web", COST)


def test_bad_caps_and_paths_are_named(book, tmp_path):
    with pytest.raises(UsageError, match="a cap needs epsilon > 0"):
        book.cap("web", epsilon=0, delta=1e-6)
    with pytest.raises(UsageError, match="there is no ledger"):
        Ledger(tmp_path / "none.db", must_exist=True)
    with pytest.raises(UsageError, match="there is no folder"):
        Ledger(tmp_path / "no" / "ledger.db")
    book.cap("web", epsilon=1, delta=1e-6)
    assert book.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", [":memory:", "file:l.db?mode=memory", "file:real.db", "a?b#c%20"])
def test_a_name_that_sqlite_reads_as_more_is_a_file_of_its_owners(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger(Path(name)).cap("web", epsilon=3, delta=1e-5)
    Ledger(Path(name)).reserve("web", COST, release_id="one", what="x")
    Ledger(Path(name)).commit("one")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert Ledger(Path(name), must_exist=True).find("one").state == "committed"
    with pytest.raises(Refused, match="needs 100000 % of the epsilon for pure"):
        Ledger(Path(name)).check("web", Guarantee(epsilon=1e3, delta=1e-6))


def test_a_ledger_is_the_same_file_wherever_the_process_goes(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    book = Ledger(Path("l.db"))
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    book.commit("one")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_is_no_file_is_no_ledger(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="is a link that leads back to itself"):
        Ledger(tmp_path / "loop")
    with pytest.raises(UsageError, match="there is no folder"):
        Ledger(tmp_path / "loop" / "ledger.db")
    with pytest.raises(UsageError, match="is not a file"):
        Ledger(tmp_path)
    (tmp_path / "astray").symlink_to(tmp_path / "nowhere" / "l.db")
    with pytest.raises(UsageError, match="there is no folder .*nowhere"):
        Ledger(tmp_path / "astray")


def test_a_commit_makes_no_ledger(book):
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    book.path.unlink()
    with pytest.raises(Refused, match="ledger.db is missing"):
        book.commit("one")
    assert list(book.path.parent.iterdir()) == []


def test_a_file_that_sqlite_made_is_no_ledger(book, monkeypatch):
    """A ledger that vanishes between the look and the opening is not begun anew."""
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    real = sqlite3.connect

    def connect(place, **more):
        book.path.unlink()
        return real(place, **more)

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(Refused, match="not a ledger of murmurlog"):
        book.reserve("web", COST, release_id="two", what="x", new_source=True)


def test_a_reopened_booking_stays_spent(book):
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    book.commit("one")
    book.reopen("one")
    assert (book.find("one").state, book.find("one").committed_at) == ("reserved", None)
    assert book.accounts()[0].booked.pure == 0.25


@pytest.mark.parametrize(
    "name", ["a\nb", "a\n", "a\tb", "\u202eweb", "", "  ", "\u034f", "\u2800", "\ud800"]
)
def test_a_name_is_one_plain_line(name, book):
    for use in (
        lambda: book.cap(name, epsilon=1, delta=1e-6),
        lambda: book.check(name, COST),
        lambda: book.reserve(name, COST, release_id="one", what="x"),
    ):
        with pytest.raises(
            UsageError, match="is not a valid name of a source: write one plain line"
        ):
            use()
    assert book.accounts() == []


@pytest.mark.parametrize("epsilon", [math.inf, math.nan, -1.0, 0.0])
def test_a_cap_is_finite_and_positive(epsilon, book):
    with pytest.raises(UsageError, match="a cap needs epsilon > 0 that is finite"):
        book.cap("web", epsilon=epsilon, delta=1e-6)
    with pytest.raises(UsageError, match="delta between 0 and 1"):
        book.cap("web", epsilon=1.0, delta=epsilon)
    assert not book.path.exists()


def test_the_same_name_in_another_form_is_the_same_account(book):
    assert book.cap(" caf\u00e9 ", epsilon=2.25, delta=1e-5).source == "caf\u00e9"
    for number, name in enumerate(("caf\u00e9", "cafe\u0301", " cafe\u0301\u00a0")):
        book.reserve(name, COST, release_id=str(number), what="x")
    assert [(a.name, a.booked.pure) for a in book.accounts()] == [("caf\u00e9", 0.75)]
    with pytest.raises(Refused, match="0 % is left"):
        book.reserve("cafe\u0301 ", COST, release_id="more", what="x")


@pytest.mark.parametrize("twin", ["WEB search", "web  search", "ｗeb search", "we\u034fb search"])
def test_a_name_that_looks_like_another_opens_no_second_account(twin, book):
    book.cap("Web search", epsilon=1, delta=1e-5)
    for use in (
        lambda: book.cap(twin, epsilon=9, delta=1e-5),
        lambda: book.check(twin, COST),
        lambda: book.reserve(twin, COST, release_id="one", what="x"),
    ):
        with pytest.raises(UsageError, match="but it has 'Web search': use that name"):
            use()
    book.cap("Web search 2", epsilon=1, delta=1e-5, new_source=True)
    assert [account.name for account in book.accounts()] == ["Web search", "Web search 2"]


def test_twins_of_older_ledgers_keep_their_accounts(book):
    book.cap("s", epsilon=1, delta=1e-5)
    with book._transaction(write=True) as db:
        twins = [("s ",), ("S",), ("e\u0301",)]
        db.executemany("INSERT INTO sources VALUES (?, NULL, NULL)", twins)
    for number, name in enumerate(("s", "s ", "S", "e\u0301")):
        book.reserve(name, COST, release_id=str(number), what="x")
    caps = {account.name: account.epsilon_cap for account in book.accounts()}
    assert caps == {"s": 1.0, "s ": 3.0, "S": 3.0, "e\u0301": 3.0}
    assert {account.releases for account in book.accounts()} == {1}
    with pytest.raises(UsageError, match="but it has"):
        book.check("ｓ", COST)


def test_a_ledger_that_something_else_changed_refuses(book):
    book.reserve("web", COST, release_id="a", what="query", new_source=True)
    with sqlite3.connect(book.path) as db:
        db.execute("UPDATE entries SET epsilon = 0.1")
    db.close()
    for look in (book.entries, lambda: book.check("web", COST, new_source=True)):
        with pytest.raises(Refused, match="damaged, or another program changed it"):
            look()


def test_a_damaged_byte_is_never_a_smaller_sum(book):
    """Wherever a byte of the file is turned over, it refuses or says what it said."""
    book.reserve("web", COST, release_id="a", what="query", new_source=True)
    book.commit("a")
    sound, before = book.path.read_bytes(), book.accounts()
    refused = 0
    for place in range(0, len(sound), 101):
        spoiled = bytearray(sound)
        spoiled[place] ^= 0xFF
        book.path.write_bytes(spoiled)
        try:
            assert book.accounts() == before, place
        except Refused:
            refused += 1
    assert refused >= 3


def test_a_ledger_that_was_cut_to_nothing_is_no_new_one(book):
    book.cap("web", epsilon=1, delta=1e-5)
    book.reserve("web", COST, release_id="one", what="x")
    book.path.write_bytes(b"")
    for use in (
        book.accounts,
        lambda: book.check("web", COST),
        lambda: book.cap("web", epsilon=9, delta=0.1),
    ):
        with pytest.raises(Refused, match="is an empty file, so what was spent is not known"):
            use()


@pytest.mark.parametrize("links", [True, False])
def test_a_new_ledger_is_never_an_empty_file_and_its_owners_alone(links, book, monkeypatch):
    def link(made, place):
        sizes.append(made.stat().st_size)
        if not links:
            raise PermissionError
        real(made, place)

    sizes, real = [], os.link
    monkeypatch.setattr(os, "link", link)
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    assert sizes[0] > 0
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600
    assert [path.name for path in book.path.parent.iterdir()] == ["ledger.db"]
    assert Ledger(book.path).find("one").epsilon == 0.25


def test_a_ledger_behind_a_link_is_made_where_it_points(book, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    book.path.symlink_to(tmp_path / "elsewhere" / "real.db")
    book.reserve("web", COST, release_id="one", what="x", new_source=True)
    assert Ledger(tmp_path / "elsewhere" / "real.db").find("one").epsilon == 0.25


def test_a_source_that_is_not_there_is_refused_and_near_names_are_pointed_out(book):
    book.cap("search-2025", epsilon=3, delta=1e-5)
    message = (
        r"there is no source 'serach-2025' in ledger.db; did you mean 'search-2025'\? Nothing was "
        r"booked.\n.*create it: murmurlog ledger cap serach-2025 --epsilon .* --new-source, or open it under a "
        r"cap of epsilon 3, delta 1e-05: --new-source"
    )
    for use in (
        lambda: book.check("serach-2025", COST),
        lambda: book.reserve("serach-2025", COST, release_id="one", what="x"),
    ):
        with pytest.raises(Refused, match=message):
            use()
    with pytest.raises(Refused, match=r"no source 'mail' in ledger.db; it has 'search-2025'\. "):
        book.check("mail", COST)
    with pytest.raises(Refused, match="ledger cap 'two words' --epsilon"):
        book.check("two words", COST)
    assert (len(book.accounts()), book.entries()) == (1, [])
    book.reserve("serach-2025", COST, release_id="one", what="x", new_source=True)
    book.reserve("serach-2025", COST, release_id="two", what="x")
    assert {account.name: account.releases for account in book.accounts()} == {
        "search-2025": 0,
        "serach-2025": 2,
    }


def test_a_release_opens_a_new_source_under_the_default_cap(book):
    """Limits are fixed before the first release, so no source is without them."""
    before = book.check("web", COST, new_source=True)
    assert (book.path.exists(), before.epsilon_cap) == (False, 3.0)
    reserved = book.reserve("web", COST, release_id="one", what="x", new_source=True)
    assert reserved.limits == before.limits
    (change,) = book.cap_history("web")
    assert (change.epsilon, change.delta, change.pure) == (3.0, 1e-5, 1.0)
    assert (change.by_whom, change.reason) == (os_user(), "the default cap")
    assert book.account("web").limits == before.limits
    too_much = Guarantee(epsilon=1.1, delta=0)
    with pytest.raises(Refused, match="needs 110 % of the epsilon for pure releases"):
        book.reserve("mail", too_much, release_id="two", what="x", new_source=True)
    assert [account.name for account in book.accounts()] == ["web"]


def test_a_cap_of_a_misspelled_source_is_refused(book):
    book.cap("search-2025", epsilon=3, delta=1e-5)
    with pytest.raises(
        Refused, match=r"did you mean 'search-2025'\? Nothing was changed.*\n.*--new-"
    ):
        book.cap("serach-2025", epsilon=9, delta=1e-5)
    assert [account.name for account in book.accounts()] == ["search-2025"]
    book.cap("mail", epsilon=1, delta=1e-5)  # resembles no other
    book.cap("search-2026", epsilon=1, delta=1e-5, new_source=True)
    book.cap("search-2026", epsilon=0.5, delta=1e-5)
    assert [account.epsilon_cap for account in book.accounts()] == [1.0, 3.0, 0.5]


def test_a_ledger_that_is_not_there_is_begun_by_a_cap_or_a_new_source_only(book):
    with pytest.raises(Refused, match=r"in ledger.db \(there is no such file yet\)"):
        book.check("web", COST)
    with pytest.raises(Refused, match="ledger.db is missing"):
        book.reserve("web", COST, release_id="one", what="x")
    assert not book.path.exists()


def test_a_release_on_an_unknown_source_reads_no_row(tmp_path, write_tsv, monkeypatch):
    def read(*_, **__):
        raise AssertionError("a row was read")

    monkeypatch.setattr("murmurlog.logs.reading.Reading.read", read)
    log = str(write_tsv([{"user": "u", "query": "q"}]))
    asked = {"ledger": tmp_path / "l.db", "source_name": "web"}
    Ledger(tmp_path / "l.db").cap("web-2", epsilon=3, delta=1e-5)
    for use in (
        lambda: murmurlog.release(log, out=tmp_path / "b", tables=["query"], **asked),
        lambda: murmurlog.release(log, out=tmp_path / "b", dry_run=True, **asked),
    ):
        with pytest.raises(Refused, match="did you mean 'web-2'") as refused:
            use()
        assert refused.value.exit_code == 3
    assert Ledger(tmp_path / "l.db").entries() == []
    with pytest.raises(UsageError, match="--new-source is about a source of a ledger"):
        murmurlog.release(log, out=tmp_path / "b", new_source=True)


def test_caps_keep_their_history_and_are_raised_with_a_reason_only(book):
    first = book.cap("web", epsilon=2, delta=1e-5)
    assert (first.epsilon_before, first.by_whom, first.reason) == (None, os_user(), None)
    for raised in ({"epsilon": 3, "delta": 1e-5}, {"epsilon": 2, "delta": 1e-4}):
        with pytest.raises(UsageError, match=r"raising the cap of source \"web\" from epsilon 2"):
            book.cap("web", **raised)
    book.cap("web", epsilon=3, delta=1e-5, reason="agreed by the board", by_whom="Jane Doe")
    assert not book.cap("web", epsilon=3, delta=1e-5).changed
    book.cap("web", epsilon=1, delta=1e-6)
    book.cap("other", epsilon=9, delta=1e-6)
    history = book.cap_history("web")
    pairs = [(change.epsilon_before, change.epsilon) for change in history]
    assert pairs == [(None, 2.0), (2.0, 3.0), (3.0, 1.0)]
    assert [change.delta_before for change in history] == [None, 1e-5, 1e-5]
    second = history[1]
    assert (second.by_whom, second.os_user) == ("Jane Doe", os_user())
    assert (second.reason, second.rule) == ("agreed by the board", "filter")
    assert [change.changed_at for change in history] == sorted(c.changed_at for c in history)
    assert book.account("web").epsilon_cap == 1.0


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "\u202eright to left", "x" * 10_000])
def test_reasons_and_names_are_plain_lines(text, book):
    with pytest.raises(UsageError, match="--reason .*write one plain line"):
        book.cap("web", epsilon=1, delta=1e-5, reason=text)
    with pytest.raises(UsageError, match="--by-whom .*write one plain line"):
        book.require_cap(by_whom=text)
    assert not book.path.exists()


def test_a_cap_below_what_is_spent_ends_releases(book):
    book.cap("web", epsilon=3, delta=1e-5)
    book.reserve("web", COST, release_id="one", what="x")
    book.cap("web", epsilon=0.5, delta=1e-5)
    with pytest.raises(Refused, match=r"pure releases \(0 % is left\)"):
        book.reserve("web", Guarantee(epsilon=1e-6, delta=0), release_id="two", what="x")


def test_a_ledger_that_requires_caps_refuses_sources_without_one(book):
    assert book.require_cap()
    assert not book.require_cap()
    for use in (
        lambda: book.check("web", COST, new_source=True),
        lambda: book.reserve("web", COST, release_id="two", what="x", new_source=True),
    ):
        with pytest.raises(Refused, match=r"has no cap, and ledger.db requires one .*ledger cap"):
            use()
    with pytest.raises(Refused, match="no source 'mail'") as refused:
        book.check("mail", COST)
    assert "--new-source" not in str(refused.value)
    book.cap("web", epsilon=3, delta=1e-5)
    book.reserve("web", COST, release_id="two", what="x")
    with pytest.raises(UsageError, match="ending that needs a reason"):
        book.require_cap(False)
    assert book.contents().cap_required
    book.require_cap(False, reason="a trial")
    book.reserve("mail", COST, release_id="three", what="x", new_source=True)
    states = [(c.cap_required, c.reason) for c in book.contents().requirement_history]
    assert states == [(True, None), (False, "a trial")]


def test_histories_are_append_only_and_sealed(book):
    book.cap("web", epsilon=1, delta=1e-5)
    book.require_cap()
    with closing(sqlite3.connect(book.path)) as db:
        for change in (
            "UPDATE cap_history SET epsilon = 9",
            "DELETE FROM cap_history",
            "UPDATE requirement_history SET cap_required = 0",
            "DELETE FROM requirement_history",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="is append-only"):
                db.execute(change)
        db.execute("DROP TRIGGER cap_history_keeps_update")
        db.execute("UPDATE cap_history SET epsilon = 9")
        db.commit()
    with pytest.raises(Refused, match="damaged, or another program changed it"):
        book.check("web", COST)


def test_changes_of_caps_and_reservations_at_once_keep_history_and_sums(book):
    """Eight threads change the cap twice and book twice each."""
    book.cap("web", epsilon=1, delta=1e-4)
    barrier = Barrier(8)

    def one(number):
        own = Ledger(book.path)
        barrier.wait()
        for epsilon in (2 + number, 10 - number):
            with suppress(UsageError, Refused):
                reason = "more" if number % 2 else None  # without one only lower caps are taken
                own.cap("web", epsilon=epsilon, delta=1e-4, reason=reason, by_whom=f"t{number}")
            with suppress(Refused):
                own.reserve("web", COST, release_id=f"{number}-{epsilon}", what="x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(8)))
    contents = book.contents()
    (account,), history = contents.accounts, contents.cap_history
    assert account.releases == len(contents.entries)
    assert account.booked == sum_of(entry.amounts for entry in contents.entries)
    assert account.epsilon_cap == history[-1].epsilon
    for before, after in pairwise(history):
        assert (after.epsilon_before, after.delta_before) == (before.epsilon, before.delta)
    assert all(change.reason for change in history if change.raised)
    assert len({change.by_whom for change in history}) > 1
    assert fits(max(change.limits for change in history), [], account.booked)

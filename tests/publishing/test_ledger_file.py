"""The ledger's file: older versions are read and converted, newer ones refused."""

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from murmurlog.errors import Refused
from murmurlog.privacy import Guarantee
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_file import VERSION

GOLDEN = Path(__file__).parents[1] / "golden" / "ledger-1.db"
COST = Guarantee(epsilon=1.0, delta=1e-6)


@pytest.fixture
def old_ledger(tmp_path):
    return Ledger(Path(shutil.copyfile(GOLDEN, tmp_path / "ledger.db")))


def version(book):
    with closing(sqlite3.connect(book.path)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def balances(book):
    return {a.name: (a.epsilon_cap, a.epsilon_by_sum, a.releases) for a in book.accounts()}


SPENT = {"caf\u00e9 logs": (None, 1.0, 1), "search-2025": (3.0, 1.8, 3), "unused": (1.0, 0.0, 0)}


def test_an_old_ledger_is_read_without_being_changed(old_ledger):
    before = old_ledger.path.read_bytes()
    old_ledger.path.chmod(0o400)
    assert balances(old_ledger) == SPENT
    assert [entry.state for entry in old_ledger.entries("search-2025")] == [
        "committed",
        "committed",
        "reserved",
    ]
    (change,) = old_ledger.cap_history("search-2025")
    assert (change.epsilon, change.changed_at, change.by_whom) == (3.0, None, None)
    assert change.reason == "set before the ledger kept a history"
    old_ledger.check("new", COST, new_source=True)
    assert old_ledger.path.read_bytes() == before
    assert list(old_ledger.path.parent.iterdir()) == [old_ledger.path]


def test_the_first_booking_converts_an_old_ledger(old_ledger):
    entries = old_ledger.entries()
    old_ledger.reserve(
        "new", COST, release_id="new", what="query: x(d=1)", title="Autumn", new_source=True
    )
    assert version(old_ledger) == VERSION
    assert old_ledger.entries()[:-1] == entries
    assert old_ledger.find("new").title == "Autumn"
    assert balances(old_ledger) == SPENT | {"new": (3.0, 0.0, 1)}
    old_ledger.commit("c" * 32)
    old_ledger.cap("new", epsilon=4, delta=1e-5, reason="more")
    assert [change.epsilon for change in old_ledger.cap_history("new")] == [3.0, 4.0]


def test_a_refused_or_interrupted_booking_leaves_an_old_ledger_as_it_was(old_ledger):
    before = old_ledger.path.read_bytes()
    with pytest.raises(Refused, match="needs 200 % of the epsilon for pure releases"):
        old_ledger.reserve(
            "new", Guarantee(epsilon=2, delta=0), release_id="new", what="x", new_source=True
        )
    with suppress(KeyboardInterrupt), old_ledger._transaction(write=True) as db:
        db.execute("DELETE FROM entries")
        raise KeyboardInterrupt
    assert old_ledger.path.read_bytes() == before
    assert balances(old_ledger) == SPENT


def test_a_ledger_of_version_3_keeps_its_rectangle_and_records_bundles_from_now_on(tmp_path):
    book = Ledger(Path(shutil.copyfile(GOLDEN.with_name("ledger-3.db"), tmp_path / "ledger.db")))
    before, file = book.account("search-2026"), book.path.read_bytes()
    assert before.limits.mu2 == 0.4918974392229032
    assert before.booked.mu2 == 0.12297435968275143
    assert {entry.checksum for entry in book.entries()} == {None}
    assert book.path.read_bytes() == file
    entries = book.entries()
    book.reserve("mail", COST, release_id="new", what="x", new_source=True)
    book.commit("new", bundle="/bundles/new", checksum="0" * 64)
    assert version(book) == VERSION
    assert book.entries()[:-1] == entries
    assert book.account("search-2026") == before
    assert (book.find("new").bundle, book.find("new").checksum) == ("/bundles/new", "0" * 64)
    book.reopen("new")
    assert (book.find("new").bundle, book.find("new").checksum) == (None, None)


def test_an_old_ledger_that_something_changed_refuses(old_ledger):
    with closing(sqlite3.connect(old_ledger.path)) as db:
        db.execute("UPDATE sources SET epsilon_cap = 9")
        db.commit()
    for use in (
        old_ledger.contents,
        lambda: old_ledger.reserve("unused", COST, release_id="new", what="x"),
    ):
        with pytest.raises(Refused, match="damaged, or another program changed it"):
            use()


def test_a_ledger_from_before_seals_is_sealed_by_its_next_booking(old_ledger):
    with closing(sqlite3.connect(old_ledger.path)) as db:
        db.execute("DROP TABLE seal")
        db.commit()
    assert balances(old_ledger) == SPENT
    old_ledger.reserve("new", COST, release_id="new", what="x", new_source=True)
    with closing(sqlite3.connect(old_ledger.path)) as db:
        db.execute("DELETE FROM entries WHERE release_id = 'new'")
        db.commit()
    with pytest.raises(Refused, match="damaged"):
        old_ledger.accounts()


@pytest.mark.parametrize("loss", ["DROP TABLE seal", "DELETE FROM seal"])
def test_a_ledger_without_its_seal_refuses(loss, tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=1, delta=1e-5)
    with closing(sqlite3.connect(book.path)) as db:
        db.execute(loss)
        db.commit()
    with pytest.raises(Refused, match="damaged"):
        book.accounts()


def test_a_newer_ledger_is_refused_with_a_sentence(old_ledger):
    with closing(sqlite3.connect(old_ledger.path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = old_ledger.path.read_bytes()
    for use in (
        old_ledger.contents,
        lambda: old_ledger.reserve("unused", COST, release_id="new", what="x"),
    ):
        with pytest.raises(
            Refused, match=rf"has version {VERSION + 1}, .* up to {VERSION}: a newer .*Update"
        ):
            use()
    assert old_ledger.path.read_bytes() == before

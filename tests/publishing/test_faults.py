"""Releases broken from outside: a few of every kind. `make faults` does hundreds."""

import shutil

import pytest
from faults import DELTA, EPSILON, KINDS, Bench, exceeded, faults, look
from warm import Runner

from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy import Guarantee, Loss
from murmurlog.publishing import ledger
from murmurlog.publishing.ledger import Ledger

SOME = [
    "killed",
    "disk full",
    "read-only",
    "ledger damaged",
    "log changes",
    "clock",
]


@pytest.mark.slow
def test_a_damaged_ledger_and_a_full_disk_break_no_promise():
    kinds = ["ledger damaged", "disk full"]
    found = faults(8, kinds=kinds, more=("--mechanism", "threshold"))
    assert {kind.name: kind.violations for kind in found} == dict.fromkeys(kinds, [])
    assert min(kind.runs for kind in found) >= 2


@pytest.mark.slow
def test_a_few_faults_of_each_kind_break_no_promise():
    found = faults(12, kinds=SOME, more=("--mechanism", "threshold"))
    assert {kind.name: kind.violations for kind in found} == dict.fromkeys(SOME, [])
    runs = {kind.name: kind.runs for kind in found}
    assert runs["killed"] >= 7
    assert min(runs.values()) >= 2
    # The kills reach from before the reservation to after it.
    assert len(found[0].states) >= 2


@pytest.mark.slow
def test_the_harness_sees_broken_promises(tmp_path):
    """What it would say if a bundle were not booked, not whole, or not alone."""
    write(invent(rows=20_000, seed=1), tmp_path / "log.parquet")
    logs = {"log.parquet": tmp_path / "log.parquet"}
    bench = Bench(tmp_path, logs, 1, ("--mechanism", "threshold"))
    runner = Runner()
    try:
        place = bench.place()
        assert runner.run(place.root, place.arguments("log.parquet")) == 0
        assert look(place, 0) == ("published", [])
        (place.root / "out" / "more").mkdir()
        (place.bundle / "README.md").write_text("changed")
        said = " ".join(look(place, 0)[1])
        assert "fails verify" in said
        assert "left in the bundle's folder" in said
        place.ledger.unlink()
        Ledger(place.ledger).cap("web", epsilon=EPSILON + 1, delta=DELTA)
        said = look(place, 0, before="earlier")[1]
        assert "published and not booked" in said
        assert "what was booked before is lost" in said
        assert "the cap is lost" in said
        place.ledger.write_bytes(b"no ledger" * 99)
        assert "does not open again" in " ".join(look(place, 0)[1])
        assert "exit 70" in " ".join(look(place, 70)[1])
        shutil.rmtree(place.bundle)
    finally:
        runner.close()


def test_the_harness_sees_a_rectangle_that_is_exceeded(tmp_path, monkeypatch):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=3, delta=1e-5, pure=0)
    cost, loss = Guarantee(epsilon=1, delta=1e-6), Loss(mu=0.5, keys=1e-6)
    book.reserve("web", cost, release_id="one", what="x", loss=loss)
    assert exceeded(book) == []
    monkeypatch.setattr(ledger, "check_room", lambda account, amounts: None)
    book.reserve("web", cost, release_id="two", what="x", loss=loss)
    assert exceeded(book) == ["web: the rectangle is exceeded"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SOME])
def test_slow_kinds_of_faults_break_no_promise(kind):
    (found,) = faults(2, kinds=[kind])
    assert found.runs
    assert found.violations == []

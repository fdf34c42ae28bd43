"""The runner of a series, broken from outside: a few of every kind. `make faults` does hundreds."""

import shutil

import pytest
from series_faults import KINDS, Bench, look, series_faults, write_logs

from murmurlog.privacy import Guarantee, Loss
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.series import run_series
from murmurlog.publishing.series_periods import Step
from murmurlog.publishing.series_spec import read_spec

COST, LOSS = Guarantee(epsilon=0.1, delta=1e-7), Loss(mu=0.01, keys=1e-8)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A series with one month published."""
    write_logs(tmp_path / "logs")
    place = Bench(tmp_path, 1).place()
    monkeypatch.chdir(place.root)
    run_series(read_spec(place.root / "series.toml"), once=True)
    (place.root / "draws").write_text("1\n")
    return place


def test_the_harness_sees_broken_promises(place):
    assert look(place, 0, at_rest=True) == []
    (place.root / "draws").write_text("1\n1\n")
    assert "a draw without a booking of its own" in look(place, 0)[0]
    (place.root / "draws").write_text("1\n2\n")
    assert "a draw without a booking of its own" in look(place, 0)[0]
    (place.root / "draws").unlink()
    book = Ledger(place.ledger)
    step = Step(series="web", period="2025-02")
    book.reserve("web", COST, release_id="a", what="x", loss=LOSS, step=step)
    assert look(place, 0) == []
    assert look(place, 0, at_rest=True) == ["2025-02 is reserved at rest"]
    book.reserve(
        "web",
        COST,
        release_id="b",
        what="x",
        loss=LOSS,
        step=Step(series="other", period="2025-02"),
    )
    assert look(place, 0) == ["2025-02 is booked 2 times"]
    shutil.copytree(place.out / "2025-01", place.out / "2025-03")
    assert "2025-03 is published and not booked" in look(place, 0)
    (place.out / "2025-01" / "README.md").write_text("changed")
    assert "2025-01 fails verify" in look(place, 0)
    shutil.rmtree(place.out / "2025-01")
    assert "2025-01 was seen in its place and is gone" in look(place, 0)
    assert "exit 70" in look(place, 70)[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_faults_of_a_series_break_no_promise(kind):
    (found,) = series_faults(10, kinds=[kind])
    assert found.runs
    assert found.violations == []

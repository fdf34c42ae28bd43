"""Ctrl-C and SIGTERM: one sentence says what was spent, and the ledger agrees."""

import os
import signal
import subprocess
import sys

import faults
import pytest
from quick_cases import sample_cases
from terminal import MAIN, Terminal

from murmurlog.bundle.scratch import PREFIX
from murmurlog.cli import stop
from murmurlog.errors import Refused
from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy import Guarantee, Loss
from murmurlog.publishing.booking import Reservation
from murmurlog.publishing.ledger import Ledger

STOPPED = """
import os, signal
from murmurlog.publishing.ledger import Ledger
act = Ledger.{method}
def stopped(*given, **named):
    done = act(*given, **named)
    os.kill(os.getpid(), signal.SIGINT)
    return done
Ledger.{method} = stopped
from murmurlog.cli.entry import main; main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["check", "reserve", "commit"])
def test_a_release_that_is_stopped_says_what_the_ledger_has(tmp_path, method):
    """Just after the ledger's last look, after the reservation, and before the bundle appears."""
    write(invent(rows=20_000, seed=1), tmp_path / "log.parquet")
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED.format(method=method), "release", "log.parquet", "--out", "b",
         "--ledger", "l.db", "--source", "web", "--new-source"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )  # fmt: skip
    sentence = done.stderr.splitlines()[-1]
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    if method == "check":
        assert sentence == "stopped: nothing was booked"
        assert not (tmp_path / "l.db").exists()
    else:
        (entry,) = Ledger(tmp_path / "l.db").entries()
        assert entry.state == "reserved"
        assert sentence == (
            f"stopped: epsilon 1, delta 1e-06 stay booked on source web as {entry.release_id}; "
            "nothing was published"
        )
    assert {path.name for path in tmp_path.iterdir()} <= {"log.parquet", "tmp", "l.db"}
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_a_release_that_is_stopped_anywhere_says_what_it_spent():
    (kind,) = faults.faults(300, kinds=["stopped"])
    assert kind.violations == []
    assert {"nothing", "reserved"} <= set(kind.states)


@pytest.mark.slow
def test_the_comparison_notices_a_sentence_that_is_not_true(monkeypatch):
    monkeypatch.setattr(faults.Place, "said", "stopped: nothing was booked; nothing was published")
    (kind,) = faults.faults(300, kinds=["stopped"])
    assert any("stopped: nothing was booked" in violation for violation in kind.violations)


COST = Guarantee(epsilon=0.5, delta=1e-6)


def reservation_in(folder):
    return Reservation(
        release_id="r1", target=folder / "out", ledger=Ledger(folder / "l.db"), source="web", cost=COST,
        loss=Loss(keys=COST.delta, pure=(COST.epsilon,)), distance=0.0, tables="query", columns={"user": "user"}, new_source=True,
    )  # fmt: skip


def test_the_sentence_follows_the_ledger(tmp_path):
    reservation = reservation_in(tmp_path)
    ledger = reservation.ledger
    assert reservation.sentence() == "nothing was booked; nothing was published"
    reservation.reserve()
    booked = "epsilon 0.5, delta 1e-06 stay booked on source web as r1"
    assert reservation.sentence() == f"{booked}; nothing was published"
    ledger.commit("r1")
    reservation.target.mkdir()
    certificate = reservation.target / "privacy.json"
    certificate.write_text('{"release_id": "r1"}')
    assert reservation.sentence() == f"{booked}; {reservation.target} was published"
    assert ledger.find("r1").state == "committed"
    # Committed, and stopped before the output appeared: it is a reservation again.
    certificate.unlink()
    assert reservation.sentence() == f"{booked}; nothing was published"
    assert ledger.find("r1").state == "reserved"


def commit_and_stop(reservation, *, with_bundle):
    with pytest.raises(KeyboardInterrupt), reservation.commit("0" * 64):
        stop_after_the_commit(reservation, with_bundle=with_bundle)


def stop_after_the_commit(reservation, *, with_bundle):
    assert reservation.ledger.find("r1").state == "committed"
    if with_bundle:
        reservation.target.mkdir()
        (reservation.target / "privacy.json").write_text('{"release_id": "r1"}')
    raise KeyboardInterrupt


def test_a_commitment_is_undone_unless_the_bundle_is_there(tmp_path):
    reservation = reservation_in(tmp_path)
    reservation.reserve()
    commit_and_stop(reservation, with_bundle=False)
    assert reservation.ledger.find("r1").state == "reserved"
    commit_and_stop(reservation, with_bundle=True)
    assert reservation.ledger.find("r1").state == "committed"


def test_a_ledger_that_cannot_be_read_is_not_guessed_about(tmp_path, monkeypatch):
    reservation = reservation_in(tmp_path)

    def locked(_):
        raise Refused("it is locked")

    monkeypatch.setattr(reservation.ledger, "find", locked)
    assert reservation.sentence().startswith("look for r1 in the ledger, which cannot be read")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("Query interrupted")])
def test_in_python_the_interrupt_has_a_note(tmp_path, error):
    with pytest.raises(type(error)) as caught, reservation_in(tmp_path).note_stops():
        raise error
    assert caught.value.__notes__ == ["nothing was booked; nothing was published"]


def test_other_errors_stay_as_they_are(tmp_path):
    with pytest.raises(ValueError, match="wrong") as caught, reservation_in(tmp_path).note_stops():
        raise ValueError("wrong")
    assert not hasattr(caught.value, "__notes__")


def test_what_libraries_make_of_an_interrupt_is_recognised():
    assert stop.exit_code(KeyboardInterrupt()) == 130
    assert stop.exit_code(RuntimeError("Query interrupted")) == 130
    assert stop.exit_code(SystemExit(0)) is None
    assert stop.exit_code(RuntimeError("else")) is None


@pytest.mark.parametrize(
    ("number", "code"), sample_cases([(signal.SIGINT, 130), (signal.SIGTERM, 143)], every=2)
)
def test_a_command_that_books_nothing_says_so(tmp_path, number, code):
    with subprocess.Popen(
        [*MAIN, "audit", "--trials", "4000"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:  # fmt: skip
        assert process.stderr.readline().startswith("attacking")
        process.send_signal(number)
        message = process.stderr.read()
    assert process.returncode == code
    assert message.splitlines()[-1] == "stopped: nothing was booked"
    assert "Traceback" not in message
    assert not list(tmp_path.glob("*"))


def test_ctrl_c_at_a_terminal_leaves_one_sentence_and_no_files(tmp_path):
    write(invent(rows=60_000, seed=1), tmp_path / "log.csv")
    (tmp_path / "tmp").mkdir()
    terminal = Terminal(
        *MAIN, "release", "log.csv", "--out", "b", cwd=tmp_path, TMPDIR=str(tmp_path / "tmp")
    )
    terminal.read(until="reading log.csv")
    terminal.type("\x03")
    text = terminal.read()
    assert terminal.end() == 130
    assert text.rstrip().endswith("stopped: nothing was booked; nothing was published")
    assert "Traceback" not in text
    assert not [*tmp_path.glob(PREFIX + "*"), *(tmp_path / "tmp").iterdir()]
    assert not (tmp_path / "b").exists()

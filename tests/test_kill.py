"""A release killed at any moment: no half bundle, and never more published than booked."""

import subprocess
import sys
import textwrap

import pytest

from murmurlog.checks import verify
from murmurlog.ledger import Ledger
from murmurlog.scratch import PREFIX, sweep
from murmurlog.synth import invent, write

# Runs a release and kills itself at the n-th event that touches the outside (files opened, made,
# renamed, removed; the ledger; locks), or after some seconds, or never; prints how many there were.
CHILD = textwrap.dedent(
    """
    import os, signal, sys, threading, time

    folder, at_event, after = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    from murmurlog.road import release  # not counted: nothing of a release has begun

    WATCHED = ("open", "os.", "shutil.", "sqlite3.", "tempfile.", "fcntl.")
    events = 0

    def watch(event, arguments):
        global events
        if event.startswith(WATCHED):
            events += 1
            if events == at_event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    if after:
        timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
    started = time.monotonic()
    release(f"{folder}/log.parquet", out=f"{folder}/out/bundle", epsilon=3.0, delta=1e-5,
            ledger=f"{folder}/ledger.db", source_name="web")
    print(events, time.monotonic() - started)
    """
)


LAST_EVENTS = 75  # about as many follow the reservation


def start(folder, *, at_event=0, after=0.0):
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), str(at_event), str(after)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"TMPDIR": str(folder / "tmp"), "PATH": "/usr/bin:/bin"},
    )


@pytest.fixture
def folder(tmp_path):
    for name in ("out", "tmp"):
        (tmp_path / name).mkdir()
    write(invent(rows=20_000, seed=1), tmp_path / "log.parquet")
    Ledger(tmp_path / "ledger.db").cap("web", epsilon=1000, delta=0.5)
    return tmp_path


def look(folder, done):
    """What the killed release left; raises if it broke a promise."""
    book = Ledger(folder / "ledger.db")
    entries = {entry.release_id: entry for entry in book.entries()}
    bundle = folder / "out" / "bundle"
    visible = [path for path in (folder / "out").iterdir() if not path.name.startswith(PREFIX)]
    assert visible in ([], [bundle])
    if bundle.exists():
        report = verify(bundle, ledger=book.path)
        assert report.ok, report.as_json()
        state = "published"
    else:
        state = "reserved" if len(entries) else "nothing"
    assert book.accounts()[0].epsilon == 3.0 * len(entries)
    # Leftovers are private and go with the next run.
    for place in (folder / "out", folder / "tmp"):
        for left in place.glob(PREFIX + "*"):
            assert left.stat().st_mode & 0o077 == 0
        sweep(place)
        assert list(place.glob(PREFIX + "*")) == []
    return state


def kill_at(tmp_path_factory, folder, moments):
    states = {}
    for moment in moments:
        here = tmp_path_factory.mktemp("kill")
        for name in ("out", "tmp"):
            (here / name).mkdir()
        (here / "log.parquet").hardlink_to(folder / "log.parquet")
        Ledger(here / "ledger.db").cap("web", epsilon=1000, delta=0.5)
        done = start(here, **moment)
        assert done.returncode in (-9, 0), done.stderr
        state = look(here, done)
        assert done.returncode == -9 or state == "published"
        states[state] = states.get(state, 0) + 1
    return states


def moments_of(folder, count):
    """`count` moments of a release: events from first to last, more of the last ones (from the
    reservation on), and points in time for the engine's work, which makes no events."""
    done = start(folder)
    assert done.returncode == 0, done.stderr
    events, seconds = int(done.stdout.split()[0]), float(done.stdout.split()[1])
    timed, late = count // 4, count // 2
    early = count - timed - late
    at = [1 + i * (events - LAST_EVENTS) // early for i in range(early)]
    at += [events - LAST_EVENTS + (i + 1) * LAST_EVENTS // late for i in range(late)]
    return [{"at_event": n} for n in at] + [
        {"after": (i + 0.5) / timed * seconds} for i in range(timed)
    ]


def test_a_few_moments(folder, tmp_path_factory):
    states = kill_at(tmp_path_factory, folder, moments_of(folder, 8))
    assert sum(states.values()) == 8
    assert states.get("nothing", 0) >= 1
    assert states.get("reserved", 0) + states.get("published", 0) >= 1


@pytest.mark.slow
def test_fifty_moments(folder, tmp_path_factory, capsys):
    states = kill_at(tmp_path_factory, folder, moments_of(folder, 50))
    with capsys.disabled():
        print(f"\nkilled at 50 moments: {states}")
    assert sum(states.values()) == 50
    assert {"nothing", "reserved"} <= set(states)

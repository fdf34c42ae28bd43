"""A series of releases: each period once, in order, whatever ends a run early."""

import fcntl
import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import command
import pytest

from murmurlog.auditing.verify import verify
from murmurlog.bundle import scratch, write
from murmurlog.bundle.files import SUMS
from murmurlog.bundle.read import read_certificate
from murmurlog.errors import DiskError, InputError, Refused, UsageError
from murmurlog.privacy import Guarantee, Loss
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing import release
from murmurlog.publishing.booking import Reservation
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_file import VERSION
from murmurlog.publishing.ledger_series import PeriodBooked
from murmurlog.publishing.series import run_series, series_status
from murmurlog.publishing.series_init import init_series
from murmurlog.publishing.series_periods import Step
from murmurlog.publishing.series_spec import SeriesOptions, read_spec

GOLDEN = Path(__file__).parents[1] / "golden"
APRIL = datetime(2026, 4, 2, tzinfo=UTC)  # January to March are over
COST, LOSS = Guarantee(epsilon=0.1, delta=1e-7), Loss(mu=0.01, keys=1e-8)


class Killed(BaseException):
    """The process ends here."""


def write_log(folder, month, queries=("news", "weather"), users=200):
    folder.mkdir(exist_ok=True)
    lines = [
        f"u{user}\t2026-{month:02}-{1 + user % 27:02} 10:00:00\t{query}"
        for user in range(users)
        for query in queries
    ]
    path = folder / f"2026-{month:02}.tsv"
    path.write_text("user\ttime\tquery\n" + "\n".join(lines) + "\n")


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Starts a series with logs of some months; the working folder is that of its file."""
    monkeypatch.chdir(tmp_path)

    def make(months=(1, 2, 3), **more):
        for month in months:
            write_log(tmp_path / "logs", month)
        said = {
            "logs": "logs/{period}.tsv",
            "first": "2026-01",
            "source_name": "web",
            "releases": 6,
        }
        said |= {"epsilon": 8.0, "delta": 1e-4, "select": "period", **more}
        init_series(tmp_path / "series.toml", SeriesOptions(**said), reason="test")
        return read_spec(tmp_path / "series.toml")

    return make


def states(spec, now=APRIL):
    return {str(each.period): each.state for each in series_status(spec, now=now).periods}


def booked_periods():
    return [(entry.period, entry.state) for entry in Ledger("budget.db").entries()]


def test_a_series_on_an_unknown_source_of_a_ledger_is_refused(make):
    Ledger("budget.db").cap("app", epsilon=3, delta=1e-5)
    with pytest.raises(Refused, match="budget.db has no source 'web'; it has 'app'"):
        make()
    assert not Path("series.toml").exists()
    assert [account.name for account in Ledger("budget.db").accounts()] == ["app"]
    said = {"logs": "logs/{period}.tsv", "source_name": "web", "epsilon": 1.0, "delta": 1e-6}
    init_series(Path("series.toml"), SeriesOptions(**said), new_source=True, reason="other users")
    assert [account.name for account in Ledger("budget.db").accounts()] == ["app", "web"]


def test_a_series_goes_to_the_ledger_that_is_beside_it(make):
    Ledger("murmurlog-ledger.db").cap("web", epsilon=8, delta=1e-4, pure=0)
    assert make().ledger == "murmurlog-ledger.db"
    assert not Path("budget.db").exists()


def test_a_series_with_a_known_seed_is_refused_and_loses_no_period(make):
    spec = make()
    with pytest.raises(Refused, match="known seed protects nobody"):
        run_series(spec, now=APRIL, entropy=SeededEntropy(1))
    assert booked_periods() == []
    assert states(spec)["2026-01"] == "due"


def test_every_period_that_is_due_is_released_in_order_and_once(make):
    spec = make()
    seen = []
    run = run_series(spec, now=APRIL, done=lambda period, _: seen.append(period))
    assert list(run.released) == seen == ["2026-01", "2026-02", "2026-03"]
    assert booked_periods() == [(period, "committed") for period in seen]
    for period in seen:
        assert verify(Path("bundles") / period, ledger="budget.db").ok
    before = Ledger("budget.db").entries()
    assert not run_series(spec, now=APRIL).released
    assert Ledger("budget.db").entries() == before
    status = series_status(spec, now=APRIL)
    assert states(spec) == dict.fromkeys(seen, "published") | {"2026-04": "future"}
    first = status.periods[0]
    assert (first.bundle, first.rows) == ("bundles/2026-01", {"query": 2})
    assert status.releases_left == 3
    assert "3 more releases like the last fit" in status.left
    assert not list(Path("bundles").glob(".*"))


def test_once_releases_one_period(make):
    spec = make()
    assert list(run_series(spec, now=APRIL, once=True).released) == ["2026-01"]
    assert list(run_series(spec, now=APRIL, once=True).released) == ["2026-02"]
    assert states(spec)["2026-03"] == "due"


def test_a_missing_log_holds_back_the_periods_after_it(make):
    spec = make(months=(1, 3))
    run = run_series(spec, now=APRIL)
    assert list(run.released) == ["2026-01"]
    assert (str(run.waiting.period), run.waiting.missing) == ("2026-02", "logs/2026-02.tsv")
    assert states(spec)["2026-03"] == "waiting"
    write_log(Path("logs"), 2)
    assert list(run_series(spec, now=APRIL).released) == ["2026-02", "2026-03"]


def test_a_period_that_is_skipped_holds_back_nothing(make):
    spec = make(months=(1, 3), skip=("2026-02",), select="all")
    assert list(run_series(spec, now=APRIL).released) == ["2026-01", "2026-03"]
    assert list(states(spec)) == ["2026-01", "2026-03", "2026-04"]


def test_a_series_ends_with_its_last_period(make):
    spec = make(last="2026-02")
    assert list(run_series(spec, now=APRIL).released) == ["2026-01", "2026-02"]
    assert list(states(spec)) == ["2026-01", "2026-02"]


def test_a_clock_that_is_set_back_releases_nothing_again(make):
    spec = make()
    run_series(spec, now=APRIL)
    before = Ledger("budget.db").entries()
    back = datetime(2026, 2, 3, tzinfo=UTC)
    assert not run_series(spec, now=back).released
    assert Ledger("budget.db").entries() == before
    assert states(spec, back)["2026-03"] == "published"
    assert series_status(spec, now=back).clock_behind


def test_a_period_before_a_booked_one_is_never_released(make):
    make(first="2026-02")
    run_series(read_spec(Path("series.toml")), now=APRIL)
    text = Path("series.toml").read_text()
    Path("series.toml").write_text(text.replace('first = "2026-02"', 'first = "2026-01"'))
    spec = read_spec(Path("series.toml"))
    assert not run_series(spec, now=APRIL).released
    assert states(spec)["2026-01"] == "skipped"


def test_a_release_that_does_not_fit_the_cap_is_refused(make):
    spec = make(releases=2)
    with pytest.raises(Refused, match="0 % is left"):
        run_series(spec, now=APRIL)
    assert booked_periods() == [("2026-01", "committed"), ("2026-02", "committed")]
    with pytest.raises(Refused):
        run_series(spec, now=APRIL)


def test_a_log_that_cannot_be_read_books_nothing_and_is_tried_again(make):
    spec = make()
    Path("logs/2026-01.tsv").write_text("no\tlog\n1\t2\n")
    with pytest.raises(InputError):
        run_series(spec, now=APRIL)
    assert booked_periods() == []
    write_log(Path("logs"), 1)
    assert len(run_series(spec, now=APRIL).released) == 3


# A run that ends early


def kill_before_writing(monkeypatch):
    def stage(*_, **__):
        raise Killed

    monkeypatch.setattr(release, "stage", stage)


def kill_with_part_of_the_files(monkeypatch):
    def flush(root):
        (root / "README.md").unlink()
        raise Killed

    monkeypatch.setattr(write, "flush", flush)


def kill_with_a_list_cut_off(monkeypatch):
    def flush(root):
        (root / SUMS).write_text((root / SUMS).read_text()[:-70])
        raise Killed

    monkeypatch.setattr(write, "flush", flush)


def kill_before_the_commit(monkeypatch):
    def flush(root):
        raise Killed

    monkeypatch.setattr(write, "flush", flush)


def kill_after_the_commit(monkeypatch):
    def move(path, out):
        raise Killed

    monkeypatch.setattr(write, "move", move)


def kill_after_the_rename(monkeypatch):
    def place(*_):
        raise Killed

    monkeypatch.setattr(Ledger, "place", place)


def end_early(spec, how, **more):
    """A run that is killed: nothing of it is cleaned up, and its locks are gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "_remove", lambda folder: None)
        patch.setattr(Reservation, "sentence", lambda self: "")
        patch.setattr(Ledger, "reopen", lambda self, release_id: None)
        how(patch)
        with suppress(Killed):
            run_series(spec, now=APRIL, **more)


@pytest.mark.parametrize(
    "how", [kill_before_the_commit, kill_after_the_commit, kill_after_the_rename]
)
def test_a_bundle_that_was_complete_is_published_without_a_second_draw(make, monkeypatch, how):
    spec = make()
    end_early(spec, how)
    (entry,) = Ledger("budget.db").entries()
    assert entry.placed_at is None
    assert states(spec)["2026-01"] in ("interrupted", "published")
    run = run_series(spec, now=APRIL, once=True)
    assert run.finished == ["2026-01"]
    assert list(run.released) == ["2026-02"]
    assert read_certificate(Path("bundles/2026-01")).release_id == entry.release_id
    assert verify("bundles/2026-01", ledger="budget.db").ok
    assert booked_periods() == [("2026-01", "committed"), ("2026-02", "committed")]
    assert not list(Path("bundles").glob(".*"))


@pytest.mark.parametrize(
    "how", [kill_before_writing, kill_with_part_of_the_files, kill_with_a_list_cut_off]
)
def test_a_bundle_that_was_not_complete_is_lost_and_reported_once(make, how):
    spec = make()
    end_early(spec, how)
    spent = Ledger("budget.db").account("web").booked
    run = run_series(spec, now=APRIL)
    assert (run.lost, run.released, run.finished) == (["2026-01"], {}, [])
    assert Ledger("budget.db").account("web").booked == spent
    assert states(spec)["2026-01"] == "lost"
    assert not list(Path("bundles").glob(".*"))
    run = run_series(spec, now=APRIL)
    assert (run.lost, list(run.released)) == ((), ["2026-02", "2026-03"])
    assert Ledger("budget.db").account("web").releases == 3


def test_a_run_removes_what_a_killed_one_left_in_the_folder_of_temporary_files(
    make, tmp_path, monkeypatch
):
    """An engine may have spilled rows of the log there."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    spec = make(last="2026-01")
    end_early(spec, kill_before_writing)
    assert list((tmp_path / "tmp").iterdir())
    run_series(spec, now=APRIL)
    assert not list((tmp_path / "tmp").iterdir())


def test_a_lost_period_is_released_again_only_by_name(make):
    spec = make()
    end_early(spec, kill_before_writing)
    assert run_series(spec, now=APRIL).lost
    run_series(spec, now=APRIL)
    assert list(run_series(spec, again="2026-01").released) == ["2026-01"]
    assert booked_periods()[0] == ("2026-01", "lost")
    assert booked_periods()[-1] == ("2026-01", "committed")
    assert states(spec)["2026-01"] == "published"
    assert verify("bundles/2026-01", ledger="budget.db").ok
    before = Ledger("budget.db").entries()
    for period, why in (("2026-01", "booked already"), ("2026-04", "never booked")):
        with pytest.raises(Refused, match=why):
            run_series(spec, again=period)
    assert Ledger("budget.db").entries() == before


def test_a_release_that_fails_after_its_booking_is_lost_at_once(make, monkeypatch):
    spec = make()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(release, "stage", full)
        with pytest.raises(DiskError, match=r"2026-01 is lost.*--again 2026-01"):
            run_series(spec, now=APRIL)
    assert booked_periods() == [("2026-01", "lost")]
    assert list(run_series(spec, now=APRIL).released) == ["2026-02", "2026-03"]


def test_a_staged_bundle_of_another_release_is_not_published(make):
    spec = make()
    end_early(spec, kill_after_the_commit)
    (made,) = Path("bundles").glob(".*/bundle")
    stated = json.loads((made / "privacy.json").read_text())
    (made / "privacy.json").write_text(json.dumps(stated | {"release_id": "0" * 32}))
    assert run_series(spec, now=APRIL).lost == ["2026-01"]
    assert not list(Path("bundles").iterdir())


def test_a_staged_bundle_that_differs_from_the_commit_is_not_published(make):
    """Its list of checksums is right, and not the one that was committed."""
    spec = make()
    end_early(spec, kill_after_the_commit)
    (made,) = Path("bundles").glob(".*/bundle")
    (made / "README.md").write_text("changed")
    sums = "".join(f"{digest}  {name}\n" for name, digest in write.sums(made).items())
    (made / SUMS).write_text(sums)
    assert run_series(spec, now=APRIL).lost == ["2026-01"]


def test_a_lost_release_cannot_be_committed_any_more(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=3, delta=1e-5, pure=0)
    step = Step(series="web", period="2026-01")
    book.reserve("web", COST, release_id="a", what="x", loss=LOSS, step=step)
    book.lose("a")
    with pytest.raises(Refused, match="no entry a to commit"):
        book.commit("a")
    assert book.find("a").state == "lost"
    book.reserve("web", COST, release_id="b", what="x", loss=LOSS)
    book.lose("b")  # of no series: nobody gives it up
    assert book.find("b").state == "reserved"


def test_what_is_in_its_place_is_never_lost(make):
    spec = make()
    run_series(spec, now=APRIL, once=True)
    (entry,) = Ledger("budget.db").entries()
    Ledger("budget.db").lose(entry.release_id)
    assert booked_periods() == [("2026-01", "committed")]


# The ledger decides


def test_of_sixteen_reservations_of_a_period_one_is_booked(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=3, delta=1e-5, pure=0)

    def reserve(number):
        step = Step(series="web", period="2026-01")
        try:
            book.reserve(
                "web", COST, release_id=f"r{number}", what="x", loss=LOSS, distance=0.0, step=step
            )
        except PeriodBooked:
            return 0
        return 1

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(reserve, range(16))) == 1
    assert len(book.entries()) == 1


def test_steps_of_a_series_are_booked_in_order_each_series_by_itself(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=3, delta=1e-5, pure=0)

    def reserve(name, series, period):
        step = Step(series=series, period=period)
        book.reserve("web", COST, release_id=name, what="x", loss=LOSS, step=step)

    reserve("a", "one", "2026-02")
    with pytest.raises(Refused, match="comes before 2026-02"):
        reserve("b", "one", "2026-01")
    reserve("c", "two", "2026-01")
    reserve("d", "one", "2026-03")
    book.lose("d")
    with pytest.raises(Refused, match="was booked and lost"):
        reserve("e", "one", "2026-03")
    assert [entry.release_id for entry in book.entries()] == ["a", "c", "d"]


def test_a_second_run_at_the_same_time_does_nothing(make):
    spec = make()
    run_series(spec, now=APRIL, once=True)
    (lock,) = Path().glob("budget.db.series-*.lock")
    handle = os.open(lock, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        run = run_series(spec, now=APRIL)
        assert run.busy
        assert not run.released
        assert series_status(spec, now=APRIL).running
    finally:
        os.close(handle)
    assert len(run_series(spec, now=APRIL).released) == 2


def test_a_run_that_the_lock_does_not_reach_takes_the_next_period(make, monkeypatch):
    spec = make()
    honest = Ledger.reserve
    taken = []

    def reserve(self, source, cost, *, release_id, step, **more):
        if not taken:  # another machine was quicker
            taken.append(release_id)
            honest(self, source, cost, release_id="other", step=step, **more)
        return honest(self, source, cost, release_id=release_id, step=step, **more)

    monkeypatch.setattr(Ledger, "reserve", reserve)
    assert list(run_series(spec, now=APRIL).released) == ["2026-02", "2026-03"]
    assert booked_periods()[0] == ("2026-01", "reserved")


def test_a_folder_that_is_lost_makes_no_period_be_released_again(make):
    spec = make()
    run_series(spec, now=APRIL, once=True)
    shutil.rmtree("bundles")
    Path("series.toml").unlink()
    assert list(run_series(make(), now=APRIL).released) == ["2026-02", "2026-03"]
    first = series_status(spec, now=APRIL).periods[0]
    assert (first.state, first.bundle) == ("published", None)


def test_a_ledger_of_version_4_takes_series_from_now_on(tmp_path):
    book = Ledger(Path(shutil.copyfile(GOLDEN / "ledger-4.db", tmp_path / "ledger.db")))
    before = book.entries()
    assert [entry.bundle for entry in before] == ["/bundles/a", "/bundles/b", None, None]
    assert {entry.series for entry in before} == {None}
    step = Step(series="web", period="2026-01")
    book.reserve("search-2026", COST, release_id="new", what="x", loss=LOSS, step=step)
    assert book.entries()[:-1] == before
    assert (book.find("new").series, book.find("new").period) == ("web", "2026-01")
    assert VERSION >= 5


# What a release of a series reads


def test_keys_are_selected_from_the_window_and_counted_in_the_period(make):
    spec = make(months=(), select=2, releases=3)
    for month, query in ((1, "january"), (2, "february"), (3, "march")):
        write_log(Path("logs"), month, queries=[query])
    run = run_series(spec, now=APRIL)
    rows = {
        period: dict(zip(*(outcome.tables["query"][name].to_pylist() for name in ("query", "users")), strict=True))
        for period, outcome in run.released.items()
    }  # fmt: skip
    assert set(rows["2026-01"]) == {"january"}
    assert set(rows["2026-02"]) == {"january", "february"}
    assert set(rows["2026-03"]) == {"january", "february", "march"}  # january was published before
    assert rows["2026-03"]["march"] > 150
    assert rows["2026-03"]["february"] < 60
    stated = json.loads(Path("bundles/2026-03/privacy.json").read_text())
    assert len(stated["after"]["releases"]) == 2
    january, february, march = islice(spec.periods(), 3)
    assert spec.window(march) == [february, march]
    assert spec.window(january) == [january]


def test_a_series_without_after_counts_only_what_it_selects(make):
    spec = make(months=(), after=False)
    for month, query in ((1, "january"), (2, "february")):
        write_log(Path("logs"), month, queries=[query])
    run = run_series(spec, now=APRIL)
    assert run.released["2026-02"].tables["query"]["query"].to_pylist() == ["february"]


def test_a_log_of_the_window_that_is_gone_is_named(make):
    spec = make(select="all")
    run_series(spec, now=APRIL, once=True)
    Path("logs/2026-01.tsv").unlink()
    with pytest.raises(InputError, match=r"reads the logs from 2026-01 on.*logs/2026-01\.tsv"):
        run_series(spec, now=APRIL)


def test_a_bundle_that_was_moved_is_not_lost_and_its_keys_are_selected_anew(make):
    spec = make()
    run_series(spec, now=APRIL, once=True)
    shutil.move("bundles/2026-01", "elsewhere")
    said = []
    run = run_series(spec, now=APRIL, once=True, say=said.append)
    assert list(run.released) == ["2026-02"]
    assert any("the bundle of 2026-01 is not at" in line for line in said)


def test_the_period_of_a_series_does_not_change(make):
    make()
    run_series(read_spec(Path("series.toml")), now=APRIL, once=True)
    text = Path("series.toml").read_text()
    text = text.replace('period = "month"', 'period = "day"').replace('"2026-01"', '"2026-01-01"')
    Path("series.toml").write_text(text)
    with pytest.raises(UsageError, match="2026-01 in the ledger, which is no day"):
        series_status(read_spec(Path("series.toml")), now=APRIL)


def test_a_name_that_is_nearly_that_of_a_known_series_is_refused(make):
    make()
    run_series(read_spec(Path("series.toml")), now=APRIL, once=True)
    text = Path("series.toml").read_text()
    Path("series.toml").write_text(text.replace('name = "web"', 'name = "Web "'))
    with pytest.raises(UsageError, match="no series 'Web ', but it has 'web'"):
        run_series(read_spec(Path("series.toml")), now=APRIL)


def test_a_log_may_be_several_files(make):
    spec = make(months=(), logs="logs/%Y/%m/*.tsv", select="all")
    for month in (1, 2):
        folder = Path("logs/2026") / f"{month:02}"
        folder.mkdir(parents=True)
        write_log(folder, month, queries=["news"])
        shutil.copy(folder / f"2026-{month:02}.tsv", folder / "more.tsv")
    assert list(run_series(spec, now=APRIL).released) == ["2026-01", "2026-02"]


# The commands


def test_the_commands_of_a_series(tmp_path):
    write_log(tmp_path / "logs", 1)
    flags = ("--logs", "logs/{period}.tsv", "--first", "2026-01", "--last", "2026-02")
    cap = ("--epsilon", "8", "--delta", "1e-4")
    init = ("series", "init", "own/s.toml", *flags, "--source", "web", "--ledger", "../b.db")
    (tmp_path / "own").mkdir()
    done = command.run(*init, cwd=tmp_path)
    assert (done.returncode, "give --epsilon and --delta" in done.stderr) == (2, True)
    done = command.run(*init, *cap, cwd=tmp_path)
    assert (done.returncode, "give --reason" in done.stderr) == (2, True)
    assert not (tmp_path / "b.db").exists()
    done = command.run(*init, *cap, "--reason", "monthly", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cap_set"]
    assert "delta 0.0001 in all; set in ../b.db" in done.stderr
    assert command.run(*init, *cap, "--reason", "again", cwd=tmp_path).returncode == 2
    (change,) = Ledger(tmp_path / "b.db").cap_history()
    assert (change.rule, change.reason) == ("filter", "monthly")
    shutil.move(tmp_path / "logs", tmp_path / "own" / "logs")
    done = command.run("series", "run", "own/s.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["released"]) == ["2026-01"]
    assert "waiting for logs/2026-02.tsv" in done.stderr
    done = command.run("series", "run", "own/s.toml", "--expect", cwd=tmp_path)
    assert (done.returncode, "2026-02 is over" in done.stderr) == (4, True)
    done = command.run("series", "status", "own/s.toml", cwd=tmp_path)
    assert "2026-01  published  bundles/2026-01  query 2 rows" in done.stdout
    assert "2026-02  waiting    for logs/2026-02.tsv" in done.stdout
    assert "11 more releases like the last fit" in done.stdout
    done = command.run("series", "status", "own/s.toml", "--json", cwd=tmp_path)
    stated = json.loads(done.stdout)
    assert stated["releases_like_the_last"] == 11
    assert [each["state"] for each in stated["periods"]] == ["published", "waiting"]


def test_a_loss_is_the_exit_code_of_one_run(make):
    spec = make(last="2026-01")
    end_early(spec, kill_before_writing)
    done = command.run("series", "run", "series.toml")
    assert done.returncode == 5
    assert "2026-01" in done.stderr
    assert "murmurlog series run series.toml --again 2026-01" in done.stderr
    done = command.run("series", "run", "series.toml")
    assert (done.returncode, done.stderr.strip()) == (0, "nothing is due")
    assert "2026-01  lost" in command.run("series", "status", "series.toml").stdout


def test_a_series_keeps_the_cap_that_the_ledger_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = {"logs": "{period}.tsv", "first": "2026-01", "source_name": "web"}
    book = Ledger("budget.db")
    book.cap("web", epsilon=2, delta=1e-5, pure=0)
    with pytest.raises(UsageError, match="has a cap of epsilon 2"):
        init_series(Path("s.toml"), SeriesOptions(**said, epsilon=3.0, delta=1e-5), reason="x")
    started = init_series(Path("s.toml"), SeriesOptions(**said))
    assert not started.cap_set
    assert read_spec(Path("s.toml")).epsilon == 2
    shutil.copyfile(GOLDEN / "ledger-6.db", "old.db")
    with pytest.raises(Refused, match='source "sums" of old.db is under the rule sum'):
        init_series(
            Path("t.toml"), SeriesOptions(**said | {"source_name": "sums", "ledger": "old.db"})
        )
    with pytest.raises(UsageError, match="exists"):
        init_series(Path("s.toml"), SeriesOptions(**said))
    book.cap("caf\u00e9", epsilon=2, delta=1e-5, pure=0)
    other = said | {"source_name": "cafe\u0301", "epsilon": 3.0, "delta": 1e-5}
    with pytest.raises(UsageError, match="has a cap of epsilon 2"):
        init_series(Path("t.toml"), SeriesOptions(**other), reason="the same name in another form")

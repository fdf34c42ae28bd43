"""Progress as a person sees it: bars on a terminal, a line for each stage elsewhere."""

import gzip
import re

import pytest
from command import run
from quick_cases import sample_cases
from terminal import MAIN, Terminal

import murmurlog
from murmurlog.cli import progress_bar
from murmurlog.cli.progress_bar import Stage
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.source import find


class Recorder:
    """A reporter that remembers what it is told."""

    def __init__(self):
        self.stages = []  # [text, total, unit, done, rows]

    def __call__(self, text):
        self.stages.append([text, None, None, 0, 0])

    def measure(self, *, total, unit):
        stage = self.stages[-1]
        stage[1:3] = total, unit

        def advance(part=1, *, rows=None):
            stage[3] += part
            stage[4] += part if rows is None else rows

        return advance

    def measure_all(self, text, *, total, unit):
        self(text)
        return self.measure(total=total, unit=unit)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    log = invent(rows=60_000, seed=4)
    for name in ("log.csv", "log.parquet"):
        write(log, folder / name)
    (folder / "packed.csv.gz").write_bytes(gzip.compress((folder / "log.csv").read_bytes()))
    return folder


@pytest.mark.parametrize("name", ["log.csv", "packed.csv.gz"])
def test_of_a_text_file_bytes_are_measured_and_rows_counted(place, name):
    recorder = Recorder()
    with connect() as engine:
        read(find(str(place / name)), engine=engine, say=recorder)
    (reading,) = recorder.stages
    size = (place / name).stat().st_size
    assert reading == [f"reading {name}", size, "rows", size, 60_000]


def test_of_parquet_rows_are_measured(place):
    recorder = Recorder()
    with connect() as engine:
        read(find(str(place / "log.parquet")), engine=engine, say=recorder)
    assert recorder.stages[-1] == ["reading log.parquet", 60_000, "rows", 60_000, 60_000]


@pytest.mark.slow
def test_rounds_systems_and_worlds_are_measured_to_their_end(place, tmp_path):
    recorder = Recorder()
    murmurlog.release(str(place / "log.parquet"), out=tmp_path / "b", epsilon=3, say=recorder)
    drawing = [stage for stage in recorder.stages if stage[0].startswith("drawing")]
    assert [stage[1:4] for stage in drawing] == [[4, "rounds", 4]] * 2
    recorder = Recorder()
    murmurlog.evaluate(
        str(place / "log.parquet"), bundles=[tmp_path / "b"], baselines=["raw"], folds=2,
        tasks=["statistics", "top-list", "ad-hoc"], say=recorder,
    )  # fmt: skip
    (whole,) = [stage for stage in recorder.stages if stage[0] == "evaluation"]
    assert whole[1:4] == [6, "systems", 6]


def test_a_plain_function_gets_a_line_for_each_stage(place, tmp_path):
    lines = []
    murmurlog.release(
        str(place / "log.csv"), out=tmp_path / "b", tables=["query"], say=lines.append
    )
    assert lines == [
        "reading log.csv",
        "counting query",
        "drawing query",
        "writing the bundle",
    ]


def test_without_a_terminal_stages_are_lines_and_stdout_is_clean(place, tmp_path):
    done = run("release", place / "log.csv", "--out", "b", "--tables", "query", cwd=tmp_path)
    assert done.stdout == ""
    assert done.stderr.startswith("reading log.csv\ncounting query\n")
    assert "\x1b" not in done.stderr


def test_numbers_are_share_rows_speed_elapsed_and_remaining_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now[0])
    stage = Stage(text="reading \x1b[31mlog", total=1000, unit="rows")
    assert stage.text == "reading \\x1b[31mlog"  # names come from other people
    now[0] = 104.0
    stage.advance(400, rows=0)
    stage.advance(0, rows=1_234_567)
    assert stage.numbers(65.0) == " 40%  1,234,567 rows  309,000 rows/s  1:05, 0:06 left"
    few = Stage(text="drawing", total=4, unit="rounds")
    now[0] = 108.0
    few.advance()
    assert few.numbers(3700.0) == " 25%  1 of 4 rounds  1:01:40, 0:12 left"


@pytest.mark.parametrize("command", sample_cases(["release", "evaluate"], every=2))
def test_a_terminal_shows_a_bar_with_share_speed_and_time(place, tmp_path, command):
    more = {
        "release": ("--out", "b"),
        "evaluate": ("--baselines", "raw,k-query:20", "--tasks", "statistics", "--out", "r.html"),
    }[command]
    code = (
        "import murmurlog.cli.progress_bar as p; p.REFRESHES = 200; "  # so that no stage is missed
        "from murmurlog.cli.entry import main; main()"
    )
    terminal = Terminal(MAIN[0], "-c", code, command, str(place / "log.csv"), *more, cwd=tmp_path)
    text = terminal.read()
    assert terminal.end() == 0, text
    assert "━━━━" in text
    # Which frames are drawn depends on the machine: some frame of reading has all numbers.
    assert re.search(
        r"reading log.csv .*\d+%  [\d,]+ rows  [\d,]+ rows/s  0:\d\d, 0:\d\d left", text
    )
    if command == "evaluate":
        assert re.search(r"evaluation .*50%  1 of 2 systems .* 0:\d\d", text)
    else:
        assert re.search(r"drawing query .*\d+%  \d of 4 rounds .* 0:\d\d, 0:\d\d left", text)
    assert "Traceback" not in text

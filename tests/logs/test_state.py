"""A state: the rows of a release from it are those of the logs; damage, other rules and other files are refused."""

import json
import os
from dataclasses import replace

import pytest

from murmurlog.errors import InputError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import find
from murmurlog.logs.state import State

READING = Reading.of(ReadOptions())
HEAD = "user,time,query,url\n"
JANUARY = (
    HEAD
    + (
        "a,2025-01-03 10:00:00,  Weather ,\n"
        "a,2025-01-03 11:00:00,weather,http://X.org/a?b\n"
        "a,2025-01-04 09:00:00,weather,\n"
        "a,2025-01-03 12:00:00,weather,http://x.org/a\n"
        'b,2025-01-31 23:59:59,"a ""quoted"", query",\n'
        "7,,straße ﬁne,http://x.org\n"
        "d,2025-01-05 10:00:00,odd urls,http://www.www.x.org/\n"  # cleaned twice it would be another one
        "d,2025-01-05 10:00:00,odd urls,http://東http://é:80\n"  # cleaned twice it would be none
        "d,2025-01-05 10:00:00,odd urls,http://null\n"  # it would read as a missing one
    )
)
FEBRUARY = HEAD + "a,2025-02-01 00:00:00,weather,\nc,2025-02-28 12:00:00,news,http://n.org/x/y\n"


def silent(_):
    pass


def add(state, path):
    with connect() as engine:
        return state.add(READING.read(find(str(path)), engine=engine, urls=True, say=silent))


def rows(log):
    table = log.table.select("user", "time", "query", "url")
    found = table.to_pyarrow().to_pylist()
    days = {}
    for row in found:
        key = (str(row["user"]), row["time"] and row["time"].date(), row["query"], row["url"])
        days[key] = min(filter(None, (days.get(key), row["time"])), default=None)
    return days


@pytest.fixture
def logs(tmp_path):
    for name, text in (("01", JANUARY), ("02", FEBRUARY)):
        (tmp_path / f"2025-{name}.csv").write_text(text, encoding="utf-8")
    return sorted(tmp_path.glob("*.csv"))


def test_the_rows_of_a_state_are_those_of_its_logs(logs, tmp_path):
    state = State(tmp_path / "state", READING)
    parts = [add(state, path) for path in logs]
    assert [(part.first, part.last, part.untimed) for part in parts] == [
        ("2025-01-03", "2025-01-31", True),
        ("2025-02-01", "2025-02-28", False),
    ]
    assert parts[0].rows == 8
    with connect() as engine:
        whole = READING.read(find(str(tmp_path / "*.csv")), engine=engine, urls=True, say=silent)
        kept = State(tmp_path / "state", READING).log(
            since=None, engine=engine, urls=True, say=silent
        )
        assert rows(kept) == rows(whole)
        assert kept.rows == len(rows(whole)) == 10
        late = state.log(since="2025-02-01", engine=engine, urls=True, say=silent)
        assert {key[1].month for key in rows(late)} == {2}


def test_a_log_that_is_added_twice_changes_nothing(logs, tmp_path):
    state = State(tmp_path / "state", READING)
    first = add(state, logs[0])
    before = {path: path.read_bytes() for path in state.folder.iterdir()}
    assert add(state, logs[0]) == first
    assert {path: path.read_bytes() for path in state.folder.iterdir()} == before


def test_old_rows_are_dropped_on_request_and_rows_without_a_time_stay(logs, tmp_path):
    state = State(tmp_path / "state", READING)
    january, february = (add(state, path) for path in logs)
    assert state.drop_before("2025-02-28") == []
    assert state.drop_before("2025-03-01") == [february]
    assert state.parts() == (january,)
    assert not (state.folder / february.file).exists()
    with connect() as engine, pytest.raises(InputError, match="no rows from 2025-03-01 on"):
        state.log(since="2025-03-01", engine=engine, urls=True, say=silent)


def test_a_state_is_private_and_sealed(logs, tmp_path):
    state = State(tmp_path / "state", READING)
    old = os.umask(0)
    try:
        part = add(state, logs[0])
    finally:
        os.umask(old)
    assert state.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in state.folder.iterdir()} == {0o600}
    path = state.folder / part.file
    path.write_bytes(path.read_bytes()[:-1])
    with connect() as engine, pytest.raises(InputError, match="missing or damaged"):
        state.log(since=None, engine=engine, urls=True, say=silent)
    listed = state.folder / "state.json"
    stated = json.loads(listed.read_text())
    stated["parts"][0]["rows"] += 1
    listed.write_text(json.dumps(stated))
    with pytest.raises(InputError, match="is damaged"):
        State(state.folder, READING)


@pytest.mark.parametrize("change", [{"url": "host"}, {"deny": frozenset({"x"})}, {"screen": None}])
def test_rows_that_were_read_in_another_way_are_not_mixed(logs, tmp_path, change):
    add(State(tmp_path / "state", READING), logs[0])
    with pytest.raises(UsageError, match="read in another way"):
        State(tmp_path / "state", replace(READING, **change))


def test_another_folder_is_no_state(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("x")
    with pytest.raises(UsageError, match="holds other files"):
        State(tmp_path / "photos", READING)
    with pytest.raises(UsageError, match="is not a folder"):
        State(tmp_path / "photos" / "a.jpg", READING)

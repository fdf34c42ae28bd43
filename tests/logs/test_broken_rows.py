"""Too many broken rows stop a release before it is booked, with the likely cause; few are a warning."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from murmurlog.errors import InputError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.inspection.inspect import inspect
from murmurlog.logs.likely_causes import likely_causes
from murmurlog.logs.log import read
from murmurlog.logs.options import ReadOptions, SourceOptions
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import find
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.planning.exact_profile import look
from murmurlog.publishing.release import release

GERMAN = "03.09.2025 03:23"


def log_of(path, *, good=10, bad=10, time=GERMAN):
    lines = [f"u{n},q{n % 3},2026-01-01 00:00" for n in range(good)]
    lines += [f"v{n},q{n % 3},{time}" for n in range(bad)]
    path.write_text("user,query,time\n" + "\n".join(lines) + "\n")
    return path


def read_with(path, *, say=lambda _: None, **options):
    read_options = ReadOptions(**options)
    with connect() as engine:
        return (
            Reading.of(read_options)
            .read(find(str(path), read_options), engine=engine, urls=False, say=say)
            .rows
        )


def test_a_log_with_too_many_broken_rows_is_refused_with_the_flag_to_give(tmp_path):
    path = log_of(tmp_path / "log.csv")
    with pytest.raises(InputError) as caught:
        read_with(path)
    assert str(caught.value) == (
        "10 of 20 rows of log.csv are broken (10 x unreadable time), more than --max-broken 0.2 allows, so "
        "nothing was booked or published. Likely cause: times do not read as ISO 8601: give --time-format, "
        "which murmurlog init proposes, see that --columns time=... names the right column, or give --columns "
        "time=none. If the log is as it should be, give a larger --max-broken."
    )
    assert read_with(path, max_broken=0.5) == 20
    assert read_with(path, time_format="%d.%m.%Y %H:%M", max_broken=0.5) == 20


def test_few_broken_rows_are_a_warning_before_anything_else(tmp_path):
    messages = []
    assert read_with(log_of(tmp_path / "log.csv", bad=2), say=messages.append) == 12
    (warning,) = [line for line in messages if line.startswith("warning: ")]
    assert warning.startswith(
        "warning: for your eyes only: 2 of 12 rows of log.csv are broken (2 x unreadable time); rows without "
        "a readable time stay, as rows without a time. Likely cause: times do not read as ISO 8601"
    )
    messages.clear()
    read_with(log_of(tmp_path / "fine.csv", bad=0), say=messages.append)
    assert not [line for line in messages if line.startswith("warning")]


def test_lost_rows_count_and_screened_and_excluded_ones_do_not(tmp_path):
    path = tmp_path / "log.csv"
    lines = (
        ["a,x,2026-01-01"] * 6
        + [",x,2026-01-01", "b,,2026-01-01", "c"]
        + ["d,a@b.example,2026-01-01"] * 5
    )
    path.write_text("user,query,time\n" + "\n".join([*lines, "e,x,2020-01-01", "e,x,noon"]) + "\n")
    with pytest.raises(
        InputError, match=r"^4 of 15 rows of log.csv are broken \(1 x no query, 1 x no user, "
    ):
        read_with(path, since="2026-01-01")
    assert read_with(path, since="2026-01-01", max_broken=0.27) == 6
    with pytest.raises(InputError, match="^4 of 16 rows"):
        read_with(path, max_broken=0.2)


def test_nothing_is_booked_or_written_on_a_misread_log(tmp_path):
    path, ledger, out = log_of(tmp_path / "log.csv"), tmp_path / "ledger.db", tmp_path / "bundle"
    settings = {"epsilon": 1.0, "delta": 1e-6, "ledger": ledger, "source_name": "web"}
    Ledger(ledger).cap("web", epsilon=3, delta=1e-5)
    with pytest.raises(InputError, match="more than --max-broken 0.2 allows"):
        release(str(path), out=out, **settings)
    assert not out.exists()
    booked = release(str(path), out=out, **settings, max_broken=1)
    assert [entry.release_id for entry in Ledger(ledger).entries()] == [booked.release_id]


def test_no_file_of_a_bundle_depends_on_the_check(tmp_path):
    path = log_of(tmp_path / "log.csv", good=40, bad=1)
    release(str(path), out=tmp_path / "bundle", epsilon=1.0, delta=1e-6, max_broken=0.137)
    for file in (tmp_path / "bundle").rglob("*"):
        if file.is_file():
            assert b"0.137" not in file.read_bytes()
            assert b"max_broken" not in file.read_bytes()


def test_profile_only_warns(tmp_path):
    messages = []
    profile = look(str(log_of(tmp_path / "log.csv")), ReadOptions(), say=messages.append)
    assert profile["broken"] == {"unreadable time": 10}
    assert profile["rows"] == 20
    assert any(line.startswith("warning: for your eyes only: 10 of 20") for line in messages)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(UsageError, match="--max-broken is a share from 0 to 1"):
        ReadOptions(max_broken=share)


@pytest.mark.parametrize(
    ("name", "content", "reason", "cause"),
    [
        ("a.csv", b"user,query\na,b,c\n", "too many columns", "do not have the fields of the header"),
        ("a.csv", "user,query\na,süße rote schuhe\n".encode("cp1252"), "not UTF-8", "try --encoding cp1252"),
        ("a.csv", b"user,query\n,x\n", "no user", 'column "user" has no value'),
        ("a.jsonl", b"[{}]\n", "not JSON", "give --format json"),
        ("a.csv", b"user,query,time\na,b,soon\n", "unreadable time", "give --columns time=none"),
    ],
)  # fmt: skip
def test_the_likely_cause_is_named(name, content, reason, cause, tmp_path):
    (tmp_path / name).write_bytes(content)
    columns = {"user": "user", "query": "query"} if name.endswith("jsonl") else None
    (message,) = likely_causes(
        find(str(tmp_path / name), SourceOptions(columns=columns)), {reason: 3}
    )
    assert cause in message


def test_no_value_is_quoted(tmp_path):
    path = log_of(tmp_path / "log.csv", time="my secret query")
    with pytest.raises(InputError) as caught:
        read_with(path)
    assert "secret" not in str(caught.value)


def test_a_log_without_usable_rows_names_the_cause(tmp_path):
    path = log_of(tmp_path / "log.csv", good=0)
    with (
        connect() as engine,
        pytest.raises(InputError, match="no usable rows: 10 x unreadable time.*time-format"),
    ):
        read(find(str(path)), engine=engine, since="2025-01-01")


@pytest.mark.parametrize(
    "far",
    [pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), pa.array([2**62], pa.timestamp("us"))],
)
def test_times_that_python_does_not_have_are_rows_like_others(far, tmp_path):
    path, n = tmp_path / "log.parquet", 60
    users = [f"u{i}" for i in range(n)]
    pq.write_table(
        pa.table({"user": users, "query": ["x"] * n, "time": pa.concat_arrays([far] * n)}), path
    )
    with pytest.raises(InputError, match="see that --columns time=... names the right"):
        release(path, out=tmp_path / "out")
    assert inspect(str(path)).columns[2].samples == ("out of range",)

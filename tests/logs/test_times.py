"""--time-format: DuckDB and Python read the same times, and formats that cannot be read are refused."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_readers import read_rows
from quick_cases import sample_cases

from murmurlog.errors import InputError, UsageError
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.source import find
from murmurlog.logs.times import COMMON_FORMATS, check_time_format, pattern

FORMATS = (
    "%d.%m.%Y %H:%M", "%m/%d/%y %I:%M %p", "%d/%b/%Y:%H:%M:%S %z", "%Y%m%d%H%M%S", "%A, %d %B %Y",
    "%a %b %d %H:%M:%S %Y", "%Y-%m-%d %H:%M:%S.%f", "%Y年%m月%d日", "100%% %d%m%y",
)  # fmt: skip


def read_time(text: str, time_format: str) -> datetime | None:
    """The moment in UTC, without a zone, as Python reads it; None if the text is not in this format."""
    text = text.strip()
    if not re.fullmatch(pattern(time_format), text):
        return None
    try:
        time = datetime.strptime(text, time_format)
        time = time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError):
        return None
    return time if time < datetime(9999, 12, 31) else None


def times_of(values, path, **options):
    pq.write_table(pa.table({"user": ["a"] * len(values), "query": ["x"] * len(values), "time": values,
                             "k": range(len(values))}), path)  # fmt: skip
    rows, broken = read_rows(path, source_options=options, keep={"n": "k"})
    return [row["time"] for row in sorted(rows, key=lambda row: int(row["n"]))], broken


@pytest.mark.parametrize("time_format", sample_cases(FORMATS, every=2))
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_duckdb_reads_a_format_as_strptime_does(time_format, data, tmp_path_factory):
    zones = st.integers(-14 * 60, 14 * 60).map(lambda n: timezone(timedelta(minutes=n)))
    moments = st.lists(
        st.datetimes(datetime(1000, 1, 1), datetime(9999, 1, 1), timezones=zones),
        min_size=20,
        max_size=40,
    )
    changes = st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["", "0", "3", " ", "x", ":"]))
    )
    texts = []
    for moment in data.draw(moments):
        text = moment.strftime(time_format.replace("%Y", f"{moment.year:04}"))
        texts.append(text)
        for at, character in data.draw(changes):
            texts.append(text[:at] + character + text[at + 1 :])
    path = tmp_path_factory.mktemp("times") / "log.parquet"
    times, _ = times_of(texts, path, time_format=time_format)
    assert times == [read_time(text, time_format) for text in texts]
    assert any(times)


def test_a_zone_is_converted_and_none_is_utc(tmp_path):
    path = tmp_path / "log.parquet"
    options = {"time_format": "%d/%b/%Y:%H:%M:%S %z"}
    times, broken = times_of(["03/Sep/2025:03:23:01 +0200", "noon"], path, **options)
    assert (times, broken) == ([datetime(2025, 9, 3, 1, 23, 1), None], {"unreadable time": 1})
    times, broken = times_of(
        ["3.9.2025 3:23", " 03.09.2025 03:23 "], path, time_format="%d.%m.%Y %H:%M"
    )
    assert (times, broken) == ([datetime(2025, 9, 3, 3, 23)] * 2, {})


def test_a_number_may_be_a_date_and_a_typed_time_needs_no_format(tmp_path):
    path = tmp_path / "log.parquet"
    assert times_of([20250903], path, time_format="%Y%m%d")[0] == [datetime(2025, 9, 3)]
    with pytest.raises(InputError, match='column "time" of log.parquet is a time already'):
        times_of([datetime(2025, 9, 3)], path, time_format="%Y%m%d")


@pytest.mark.parametrize(
    ("given_format", "why"),
    [
        ("%d.%m.%Y %Q", "has %Q, which is not read: use %Y, %y"),
        ("%d.%m.%Y %", "has %, which"),
        ("%H:%M", "has no date"),
        ("%d.%m", "has no date"),
        ("%Y-%m-%d %y", "%Y or %y more than once"),
        ("%Y-%m-%d %d", "%d more than once"),
        ("%Y-%m-%d %I:%M", "%I .1 to 12. and %p"),
        ("%Y-%m-%d %H:%M %p", "%I .1 to 12. and %p"),
        ("unix", "has no date"),
    ],
)  # fmt: skip
def test_a_format_that_cannot_be_read_is_refused(given_format, why):
    with pytest.raises(UsageError, match=why):
        find("log.csv", SourceOptions(time_format=given_format))


def test_numbers_side_by_side_have_all_their_digits():
    assert read_time("1122025", "%d%m%Y") is None
    assert read_time("11022025", "%d%m%Y") == datetime(2025, 2, 11)
    assert pattern("%d%m%Y") == "^[0-9]{2,2}[0-9]{2,2}[0-9]{4,4}$"


def test_every_proposed_format_can_be_given():
    assert [check_time_format(time_format) for time_format in COMMON_FORMATS] == list(
        COMMON_FORMATS
    )

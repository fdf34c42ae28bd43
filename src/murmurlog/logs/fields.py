"""Fields of a row that have a type: when it was, and the rank of what was clicked.

Expressions of Ibis over rows as they stand in a source. What a text means as a time is DuckDB's to
say; on Spark it is asked on the workers (`spark_rows`), so that no row has two times.
"""

from typing import Any

import ibis


def typed(rows: Any) -> dict[str, Any]:
    """`time` as a timestamp in UTC, `timed`, whether one was given, and `rank` as a number."""
    time = rows.time.strip().nullif("") if rows.time.type().is_string() else rows.time
    return {
        "time": _parsed(time),
        "timed": time.notnull(),
        "rank": rows["rank"].try_cast("int32"),
    }


def _parsed(time: Any) -> Any:
    """A timestamp in UTC: typed columns as they are, text as ISO 8601, numbers as Unix time.

    Nothing outside the years 1 to 9999, which infinity is, too.
    """
    if time.type().is_numeric():
        return _unix(time.cast("float64"))
    if time.type().is_timestamp() or time.type().is_date():
        return _in_years(time.cast("timestamp(6)"))
    if not time.type().is_string():
        time = time.cast("string")
    digits = time.re_search(r"^[0-9]{9,19}(\.[0-9]+)?$")
    # DuckDB reads an offset only for a type that has a zone, and that takes four times as long.
    offset = time.re_search(r":[0-9.]+ ?[+-][0-9]{2}(:?[0-9]{2})?$")
    zoned = time.try_cast("timestamp('UTC', 6)").cast("timestamp(6)")
    text = ibis.ifelse(offset, zoned, time.try_cast("timestamp(6)"))
    return ibis.ifelse(digits, _unix(time.try_cast("float64")), _in_years(text))


def _in_years(time: Any) -> Any:
    inside = (time >= ibis.timestamp("0001-01-01")) & (time < ibis.timestamp("9999-12-31"))
    return ibis.ifelse(inside, time, ibis.null("timestamp(6)"))


def _unix(number: Any) -> Any:
    """Unix seconds, milli-, micro- or nanoseconds, told apart by size, to the millisecond.

    Nothing before the year 1 or beyond nanoseconds of 64 bits.
    """
    # Asked for by name: no comparison finds a NaN that the statistics of a Parquet file leave out.
    inside = ~number.isnan() & (number >= -62_135_596_800) & (number < 1e19)
    number = ibis.ifelse(inside, number, ibis.null("float64"))
    milli = ibis.cases(
        (number < 1e11, number * 1e3),
        (number < 1e14, number),
        (number < 1e17, number / 1e3),
        else_=number / 1e6,
    )
    return milli.round().as_timestamp("ms").cast("timestamp(6)")

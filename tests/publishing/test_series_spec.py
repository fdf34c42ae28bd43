"""The description of a series: periods, patterns, keys, and what is refused."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmurlog.errors import UsageError
from murmurlog.publishing.series_periods import FORMS, Period
from murmurlog.publishing.series_spec import SeriesOptions, as_toml, read_spec, spec_of

SAID = {
    "logs": "l/{period}.csv",
    "first": "2026-01",
    "source_name": "web",
    "epsilon": 3.0,
    "delta": 1e-5,
}
DAYS = st.dates(date(1900, 1, 8), date(2900, 1, 1))


@given(DAYS, st.sampled_from([*FORMS]))
def test_a_period_is_its_text_and_follows_the_one_before(day, kind):
    period = Period.at(day, kind)
    assert Period.parse(str(period), kind) == period
    assert period.start <= day < period.end
    assert period.next.previous == period
    assert str(period) < str(period.next)
    midnight = datetime(period.end.year, period.end.month, period.end.day, tzinfo=UTC)
    assert period.is_over(midnight)
    assert not period.is_over(datetime(day.year, day.month, day.day, 23, 59, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("2026-13", "month"), ("2026-1", "month"), ("2026-W54", "week"), ("2026-02-30", "day"),
     ("2026-01-01", "month"), ("", "day"), ("0099-01", "month"), ("2025-W53", "week")],
)  # fmt: skip
def test_a_text_that_is_no_period_is_refused(text, kind):
    with pytest.raises(UsageError, match=f"is no {kind}: write it as"):
        Period.parse(text, kind)


def test_patterns_take_the_period_and_its_parts():
    january = Period.parse("2026-01", "month")
    assert january.fill("a/{period}/%Y-%m/%%.csv") == "a/2026-01/2026-01/%.csv"
    assert Period.parse("2026-W01", "week").fill("%G/%V") == "2026/01"
    assert str(Period.at(date(2026, 1, 1), "week")) == "2026-W01"
    assert str(Period.at(date(2027, 1, 1), "week")) == "2026-W53"


def test_a_written_series_reads_as_it_was(tmp_path):
    said = {
        **SAID,
        "logs": 'l"\\{period}',
        "last": "2026-12",
        "tables": ("query", "click"),
        "select": 3,
        "skip": ("2026-02",),
    }
    spec = spec_of(SeriesOptions(**said, name="a series", after=False, releases=7))
    (tmp_path / "s.toml").write_text(as_toml(spec))
    assert read_spec(tmp_path / "s.toml") == spec
    assert spec_of(SeriesOptions(**SAID)).releases == 12
    week = spec_of(SeriesOptions(**SAID | {"first": "2026-W01"}, period="week"))
    assert (week.releases, week.name) == (52, "web")


def test_the_first_period_is_the_last_that_is_over_unless_it_is_said():
    now = datetime(2026, 3, 15, tzinfo=UTC)
    assert str(spec_of(SeriesOptions(**SAID | {"first": None}), now=now).first) == "2026-02"


def write(folder, more="", **changed):
    text = as_toml(spec_of(SeriesOptions(**SAID | changed)))
    path = folder / "s.toml"
    path.write_text(text + more)
    return path


def test_other_settings_of_a_release_are_those_of_its_flags(tmp_path):
    more = 'per-user = 20\nusers = 1000\nstrict = true\nrounds = 3\ndeny = "d.txt"\n'
    more += '[release.columns]\nuser = "u"\nquery = "q"\n[release.about]\ntitle = "Searches"\n'
    keywords = read_spec(write(tmp_path, more)).release
    assert keywords == {
        "per_user": 20, "users": 1000, "strict": True, "rounds": 3, "deny": Path("d.txt"),
        "columns": {"user": "u", "query": "q"}, "about": {"title": "Searches"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            "per-usr = 20",
            r"s.toml: \[release\] has no setting 'per-usr'.*Did you mean 'per-user'\?",
        ),
        ("epsilon = 1", r"\[release\] epsilon is set by the series itself"),
        ("after = 'x'", r"\[release\] after is set by the series itself"),
        ("strict = 1", "strict is true or false, not 1"),
        ("users = true", "users takes a value, not true"),
        ("users = 'many'", "--users"),
    ],
)
def test_wrong_settings_of_a_release_are_refused(tmp_path, more, why):
    with pytest.raises(UsageError, match=why):
        read_spec(write(tmp_path, more))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("first =", "frist =", r"s.toml: there is no key 'frist'. Did you mean 'first'\?"),
        ('first = "2026-01"', "", "first is missing"),
        ("epsilon = 3.0", "", "epsilon is missing"),
        ('logs = "l/{period}.csv"', "", "logs is missing"),
        ('source = "web"', "", "source is missing"),
        ('"month"', '"year"', "period 'year' is unknown"),
        ('"2026-01"', '"2026-1"', "is no month"),
        ("{period}.csv", "all.csv", "logs 'l/all.csv' names one path for several periods"),
        ("{period}.csv", "%m.csv", "names one path for several periods"),
        ("bundles/{period}", "bundles/%Y", "out 'bundles/%Y' names one path"),
        ("l/{period}", "s3://b/{period}", "must be a path on this machine"),
        ("releases = 12", "releases = 0", "at least 1"),
        ('select = "all"', "select = 0", "at least one period"),
        ('select = "all"', 'select = "some"', "write all, period, or a number"),
        ('# last = "..."', 'last = "2025-01"', "last 2025-01 is before first 2026-01"),
        ("[release]", "release = 1", "write \\[release\\]"),
        ("after = true", "after = ", "is not TOML"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path, old, new, why):
    path = write(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=why):
        read_spec(path)


def test_a_description_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="series init"):
        read_spec(tmp_path / "s.toml")

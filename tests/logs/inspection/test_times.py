"""The format of times is the one that reads most values as moments of our age."""

import pyarrow as pa
import pytest
from owner_logs import random_times

from murmurlog.logs.inspection.times import choose, likely, reads


def chosen_format(values):
    return choose(reads(pa.table({"v": values}), likely(values)), len(values))


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("%Y-%m-%dT%H:%M:%SZ", ""),
        ("%s", ""),
        ("%s123", ""),
        ("%s123456", ""),
        ("%s123456789", ""),
        ("%d.%m.%Y", "%d.%m.%Y"),
        ("%d.%m.%y, %H:%M", "%d.%m.%y, %H:%M"),
        ("%d-%m-%Y %H:%M:%S", "%d-%m-%Y %H:%M:%S"),
        ("%b %d, %Y %I:%M:%S %p", "%b %d, %Y %I:%M:%S %p"),
        ("%Y%m%d", "%Y%m%d"),
        ("%Y%m%d%H%M%S", "%Y%m%d%H%M%S"),  # by the standard it would be of the year 2611
        ("%a, %d %b %Y %H:%M:%S +0000", "%a, %d %b %Y %H:%M:%S %z"),
    ],
)
def test_usual_formats_are_recognised(written, form):
    chosen = chosen_format([moment.strftime(written) for moment in random_times(200)])
    assert (chosen.format, chosen.share, chosen.others) == (form, 1.0, ())


def test_two_formats_that_read_the_same_moments_are_one():
    chosen = chosen_format(["05.05.2025 10:00", "06.06.2025 11:00"] * 20)
    assert chosen.others == ()


def test_what_is_no_time_has_no_format():
    assert chosen_format(["weather", "news", "maps"]) is None
    assert chosen_format([f"{n}" for n in range(100_000, 100_100)]) is None

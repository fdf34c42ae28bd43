"""What changed between two bundles: differences with their errors, and how often they are wrong."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from certificates import make_certificate, make_table
from command import run

import murmurlog
from murmurlog.bundle.read import Release, Tables
from murmurlog.bundle.schema import AT_LEAST, IN_LOG, with_intervals
from murmurlog.bundle.write import publish
from murmurlog.errors import UsageError

GAUSSIAN = "threshold(noise=gaussian, d=5, scale=9.0, T=90)"


def release(rows, meaning=IN_LOG, *, number=1, mechanism=GAUSSIAN):
    """A release of (query, users, stderr) whose counts have this meaning; fresh, so without a lean."""
    table = with_intervals(make_table("query", *rows))
    certificate = make_certificate(
        {"query": table}, {"query": mechanism}, release_id=f"{number:032x}"
    )
    claim = certificate.tables["query"]
    counting = None if meaning is None else {"meaning": meaning}
    if meaning == IN_LOG:
        high = np.ceil(table["users"].to_numpy() + 1.96 * table["users_stderr"].to_numpy())
        place = table.column_names.index("users_high")
        table = table.set_column(place, "users_high", pa.array(high.astype(np.int64)))
    claim = replace(claim, counting=counting, parameters={**claim.parameters, "count_scale": 3.0})
    release = Release(f"b{number}", replace(certificate, tables={"query": claim}))
    release.__dict__["tables"] = Tables({"query": table})
    return release


def test_every_key_has_its_change_and_the_error_of_a_difference():
    before = release(
        [("same", 500, 30.0), ("up", 400, 30.0), ("down", 900, 30.0), ("old", 300, 30.0)]
    )
    after = release(
        [("same", 530, 40.0), ("up", 900, 40.0), ("down", 400, 40.0), ("new", 200, 40.0)]
    )
    comparison = murmurlog.compare(before, after)
    rows = {row["query"]: row for row in comparison.rows.to_pylist()}
    changes = {query: row["change"] for query, row in rows.items()}
    assert changes == {
        "same": "same", "up": "rose", "down": "fell", "old": "lost", "new": "gained"
    }  # fmt: skip
    same = rows["same"]
    assert (same["users_before"], same["users_after"], same["difference"]) == (500, 530, 30)
    assert same["difference_stderr"] == pytest.approx(50.0)
    assert (same["difference_low"], same["difference_high"]) == (-68, 128)
    assert rows["new"]["users_before"] is rows["new"]["difference"] is None
    assert rows["old"]["users_after"] is None
    assert "estimates of the users in the log" in comparison.about
    assert comparison.as_json() == {"gained": 1, "lost": 1, "rose": 1, "fell": 1, "kept": 3}


def test_a_difference_between_meanings_has_one_end():
    in_log, bounded = release([("a", 500, 30.0)]), release([("a", 400, 30.0)], AT_LEAST)
    (up,) = murmurlog.compare(in_log, bounded).rows.to_pylist()
    assert (up["difference_low"], up["difference_high"]) == (-184, None)
    (down,) = murmurlog.compare(bounded, in_log).rows.to_pylist()
    assert (down["difference_low"], down["difference_high"]) == (None, 184)
    assert (
        "Only the second bundle counts users after bounding"
        in murmurlog.compare(in_log, bounded).about
    )
    both = murmurlog.compare(bounded, bounded)
    assert "says nothing certain about the log" in both.about
    assert both.rows["difference_high"].null_count == 0


@pytest.mark.parametrize("errors", [(20.0, 20.0), (10.0, 60.0)])
def test_a_change_is_reported_as_rarely_as_stated_and_as_soon_as_its_error_allows(errors):
    rng = np.random.default_rng(1)
    wrong, missed, covered, runs = 0, 0, 0, 200
    z = math.hypot(*errors)
    for _ in range(runs):
        sides = []
        for error, more in zip(errors, (0, 5 * z), strict=True):
            noisy = [("moved", round(3000 + more + error * rng.standard_normal()), error)]
            noisy += [
                (f"q{n}", round(1000 + error * rng.standard_normal()), error) for n in range(30)
            ]
            sides.append(release(noisy))
        comparison = murmurlog.compare(*sides)
        changed = {*comparison.rose["query"].to_pylist(), *comparison.fell["query"].to_pylist()}
        wrong += bool(changed - {"moved"})
        missed += "moved" not in changed
        rest = [row for row in comparison.rows.to_pylist() if row["query"] != "moved"]
        covered += sum(row["difference_low"] <= 0 <= row["difference_high"] for row in rest)
    assert wrong / runs <= 0.1  # at most 0.05, and 200 runs
    assert missed / runs < 0.15  # 5 errors against 3.2; two separate intervals would need 4.6
    assert 0.93 < covered / runs / 30 < 0.98


def test_other_units_are_not_compared():
    first, other = release([("a", 500, 30.0)]), release([("a", 400, 30.0)])
    days = replace(other.certificate.guarantee, unit="user-day")
    changed = Release("x", replace(other.certificate, guarantee=days))
    changed.__dict__["tables"] = other.tables
    with pytest.raises(UsageError, match="one bundle counts users and the other user-days"):
        murmurlog.compare(first, changed)


@pytest.fixture
def bundles(tmp_path):
    many = [(f"query {n:02}", 900 - n, 20.0) for n in range(30)]
    for name, rows in (
        ("a", [("weather", 500, 20.0), ("=old", 300, 20.0), *many]),
        ("b", [("weather", 900, 20.0), ("new", 200, 20.0), *many]),
    ):
        table = with_intervals(make_table("query", *rows))
        certificate = make_certificate({"query": table})
        claim = replace(certificate.tables["query"], counting={"meaning": AT_LEAST})
        publish(
            tmp_path / name,
            tables={"query": table},
            certificate=replace(certificate, tables={"query": claim}),
        )
    return tmp_path


def test_the_command_lists_some_rows_and_prints_all_as_csv_or_json(bundles):
    done = run("compare", "a", "b", "--top", "3", cwd=bundles)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "1 rose, by more than their errors explain" in lines
    assert "1 only in the second bundle" in lines
    assert "30 in both, without a clear change, the first 3" in lines
    assert any(line.split()[:2] == ["weather", "500"] and "+400 (" in line for line in lines)
    assert sum(line.strip().startswith("query ") for line in lines) == 3 + 4  # rows and headings
    assert "the log has at least as many" in done.stderr
    rows = list(csv.DictReader(run("compare", "a", "b", "--csv", cwd=bundles).stdout.splitlines()))
    assert len(rows) == 33
    assert {row["query"] for row in rows} >= {"weather", "'=old", "new"}
    data = json.loads(run("compare", "a", "b", "--json", cwd=bundles).stdout)
    assert (data["kept"], len(data["rows"]), data["meaning"]) == (
        31, 33, {"before": AT_LEAST, "after": AT_LEAST},
    )  # fmt: skip
    for flags, words in (
        (("--csv", "--json"), "two forms of the output"),
        (("--top", "-1"), "--top must be at least 0"),
        (("--table", "click"), "has no table 'click'"),
    ):
        failed = run("compare", "a", "b", *flags, cwd=bundles)
        assert failed.returncode == 2
        assert words in failed.stderr

"""What the page says about a count, by what the count is about."""

from dataclasses import replace

import pyarrow as pa
import pytest
from certificates import make_certificate, make_table
from starlette.testclient import TestClient

from murmurlog.bundle.compare import find_changes
from murmurlog.bundle.schema import AT_LEAST, IN_LOG, with_intervals
from murmurlog.bundle.write import publish
from murmurlog.cli.serve import verify_bundle
from murmurlog.web import app
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Hosts
from murmurlog.web.index import Amount
from murmurlog.web.template_helpers import bar

ROWS = make_table("query", ["weather", 1250, 30.0], ["maps", 90, 30.0])


def table_and_claim(meaning, table=ROWS):
    """A table and its claim, with counts of this meaning."""
    claim = make_certificate({"query": ROWS}).tables["query"]
    if meaning is None:
        return table, claim
    table = with_intervals(table)
    more = {}
    if meaning == IN_LOG:
        high = pa.array([n + 60 for n in table["users"].to_pylist()], pa.int64())
        table = table.set_column(table.column_names.index("users_high"), "users_high", high)
        more = {"d2": 16, "common_error": 0.01, "histogram": [3]}
    return table, replace(claim, counting={"meaning": meaning, **more})


@pytest.fixture
def client(tmp_path, request):
    table, claim = table_and_claim(request.param)
    certificate = replace(make_certificate({"query": ROWS}), tables={"query": claim})
    publish(tmp_path / "bundle", tables={"query": table}, certificate=certificate)
    page = app.make(ServedBundles([tmp_path / "bundle"]), verifier=verify_bundle, hosts=Hosts())
    with TestClient(page, base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.parametrize("client", [IN_LOG], indirect=True)
def test_counts_of_users_in_the_log_have_both_ends(client):
    answer = client.get("/?q=weather").text
    assert (
        "<b>1,250</b> <span>users in the log</span> <small>95 % interval 1,191 to 1,310" in answer
    )
    count = client.get("/complete?q=weather").json()["completions"][0]["count"]
    assert (count["low"], count["high"]) == (1191, 1310)
    top = client.get("/top").text
    assert ">users in the log<" in top
    assert "1,191 to 1,310" in top
    assert "bounding" not in top + answer + client.get("/").text


@pytest.mark.parametrize("client", [AT_LEAST], indirect=True)
def test_counts_of_bounded_items_say_at_least(client):
    answer = client.get("/?q=weather").text
    assert "<span>at least</span> <b>1,191</b> <span>users in the log</span>" in answer
    assert "95 % sure (1,250 counted)" in answer
    count = client.get("/complete?q=weather").json()["completions"][0]["count"]
    assert (count["low"], count["high"]) == (1191, None)
    top = client.get("/top").text
    assert ">users counted<" in top
    assert "in the log, 95 % sure" in top
    assert "at least 1,191" in top
    assert "bounding" not in top + answer + client.get("/").text


@pytest.mark.parametrize("client", [None], indirect=True)
def test_bundles_without_a_meaning_keep_their_words(client):
    assert "counts once, after bounding" in client.get("/?q=weather").text
    assert "users after bounding, plus noise" in client.get("/top").text


def test_a_bar_without_an_upper_end_has_one_tick():
    amount = Amount(value=50, counted="users", low=40, high=None, reliable=True, meaning=AT_LEAST)
    assert bar(amount, 100).count('class="error"') == 2
    assert bar(replace(amount, high=60), 100).count('class="error"') == 3


def test_fewer_users_counted_than_are_in_another_log_are_no_fall():
    fewer = make_table("query", ["weather", 500, 10.0], ["maps", 90, 30.0])
    (before, first), (after, second) = table_and_claim(IN_LOG), table_and_claim(AT_LEAST, fewer)
    keys = ("query",)
    mixed = find_changes("query", (before, first, keys), (after, second, keys))
    assert (len(mixed.fell[0]), len(mixed.rose[0])) == (0, 0)
    back = find_changes("query", (after, second, keys), (before, first, keys))
    assert (len(back.fell[0]), len(back.rose[0])) == (0, 0)
    same = find_changes("query", (*table_and_claim(AT_LEAST), keys), (after, second, keys))
    assert len(same.fell[0]) == 1
    # The error that all rows of a table share is in the interval of a change.
    wide = replace(first, counting={**first.counting, "common_error": 0.5})
    less, other = table_and_claim(IN_LOG, fewer)
    assert len(find_changes("query", (before, first, keys), (less, other, keys)).fell[0]) == 1
    assert not len(find_changes("query", (before, wide, keys), (less, other, keys)).fell[0])

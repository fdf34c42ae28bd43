"""Releases whose keys and counts are of different periods: what they publish, state and refuse."""

import json
from dataclasses import replace

import pytest
from command import run
from starlette.testclient import TestClient

import murmurlog
from murmurlog.bundle.read import load
from murmurlog.bundle.write import publish
from murmurlog.cli.serve import verify_bundle
from murmurlog.errors import InputError, UsageError
from murmurlog.publishing.ledger import Ledger
from murmurlog.web.app import make
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Hosts

BUDGET = {"tables": ["query"], "epsilon": 2.0, "delta": 1e-6}


@pytest.fixture
def log(write_tsv):
    """In January 400 users ask for weather; in February 20 of them do, and 400 for maps."""
    january, february = "2026-01-05 10:00:00", "2026-02-05 10:00:00"
    asked = [(400, january, "weather"), (20, february, "weather"), (400, february, "maps")]
    return str(
        write_tsv(
            {"user": f"u{n}", "time": time, "query": query, "url": "a.org"}
            for users, time, query in asked
            for n in range(users)
        )
    )


def users(outcome):
    return {row["query"]: row["users"] for row in outcome.tables["query"].to_pylist()}


def test_keys_of_all_rows_are_counted_over_one_month(log, tmp_path):
    out = tmp_path / "bundle"
    made = murmurlog.release(log, out=out, count_from="2026-02-01", **BUDGET)
    found = users(made)
    assert found["weather"] == pytest.approx(20, abs=60)
    assert found["maps"] == pytest.approx(400, abs=60)
    stated = json.loads((out / "privacy.json").read_text())["text"]
    assert (stated["select_from"], stated["count_from"]) == ("all", "2026-02-01")
    assert murmurlog.verify(out).ok
    words = "Counts: users with rows from 2026-02-01 on. Keys were selected from all rows."
    for card in ("README.md", "report.html"):
        assert words in (out / card).read_text()
    assert "hold the item, in rows from 2026-02-01 on" in (out / "README.md").read_text()
    page = make(ServedBundles([out]), verifier=verify_bundle, hosts=Hosts(port=8765))
    client = TestClient(page, base_url="http://127.0.0.1:8765")
    for view in ("/", "/top", "/privacy"):
        assert "rows from 2026-02-01 on" in client.get(view).text, view
    assert "in rows from 2026-02-01 on" in run("estimate", out, "--match", "*").stderr


def test_keys_may_be_of_the_shorter_period(log, tmp_path):
    asked = {"select_from": "2026-02-01", "count_from": "all", "until": "2026-03-01"}
    made = murmurlog.release(log, out=tmp_path / "b", **asked, **{**BUDGET, "epsilon": 8.0})
    assert users(made)["weather"] == pytest.approx(400, abs=40)
    page = (tmp_path / "b" / "report.html").read_text()
    words = "users with rows before 2026-03-01. Keys were selected from rows from 2026-02-01 on and"
    assert words in page
    only = murmurlog.release(  # twenty users are too few
        log,
        out=tmp_path / "keys",
        select_from="2026-02-01",
        set_only=True,
        **{**BUDGET, "epsilon": 0.3},
    )
    assert only.tables["query"]["query"].to_pylist() == ["maps"]
    assert murmurlog.verify(tmp_path / "keys").ok
    assert "Counts: users with" not in (tmp_path / "keys" / "README.md").read_text()


def test_a_month_after_the_month_before(log, tmp_path):
    """Keys of January are free in February, new ones are selected from all rows, counts are of February."""
    book = Ledger(tmp_path / "l.db")
    book.cap("web", epsilon=3, delta=1e-5, pure=0)
    asked = {"tables": ["query"], "ledger": book.path, "source_name": "web", "of_cap": 0.4}
    first = murmurlog.release(log, out=tmp_path / "1", until="2026-02-01", **asked)
    assert set(users(first)) == {"weather"}
    second = murmurlog.release(
        log,
        out=tmp_path / "2",
        until="2026-03-01",
        count_from="2026-02-01",
        after="ledger",
        **asked,
    )
    assert second.certificate.after["keys"] == {"query": 1}
    assert users(second)["weather"] == pytest.approx(20, abs=60)
    assert set(users(second)) == {"weather", "maps"}
    assert murmurlog.verify(tmp_path / "2", ledger=book.path).ok


def test_the_command_and_its_file_take_windows(log, tmp_path):
    (tmp_path / "murmurlog.toml").write_text(
        '[release]\ntables = "query"\ncount-from = "2026-02-01"\n'
    )
    run("release", log, "--out", tmp_path / "b", "--select-from", "all", cwd=tmp_path)
    text = load(tmp_path / "b").certificate.text
    assert (text["select_from"], text["count_from"]) == ("all", "2026-02-01")


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"count_from": "soon"}, "--count-from 'soon' is not a date or time"),
        ({"count_from": "2026-02-01", "mechanism": "threshold"}, "for rounds, not for threshold"),
        ({"count_from": "2026-02-01", "tables": ["query", "left_out"]}, "not for left-out"),
        ({"count_from": "2026-02-01", "set_only": True}, "--set-only publishes none"),
        ({"count_from": "2026-01-01", "since": "2026-02-01"}, "is before --since"),
        ({"select_from": "2026-02-01", "until": "2026-02-01"}, "is not before --until"),
        (
            {"count_from": "2026-02-01", "tables": ["itemset"], "consecutive": True},
            "--consecutive cuts runs",
        ),
    ],
)
def test_windows_that_cannot_be_used_are_refused(log, tmp_path, asked, match):
    book = Ledger(tmp_path / "l.db")
    book.cap("web", epsilon=20, delta=1e-3)
    before = book.path.read_bytes()
    with pytest.raises(UsageError, match=match):
        murmurlog.release(
            log, out=tmp_path / "b", ledger=book.path, source_name="web", **{**BUDGET, **asked}
        )
    assert book.path.read_bytes() == before


def test_a_log_without_times_has_no_windows(write_tsv, tmp_path):
    log = write_tsv([{"user": "u", "query": "q"}], columns=("user", "query"))
    with pytest.raises(InputError, match="no time column, so --count-from cannot be applied"):
        murmurlog.release(str(log), out=tmp_path / "b", count_from="2026-01-01", **BUDGET)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"count_from": None}, "one of two windows only"),
        ({"count_from": "soon"}, "neither a date nor all"),
        ({"mechanism": "threshold(d=10, noise=geometric, scale=10, T=200)"}, "has no windows"),
    ],
)
def test_verify_finds_forged_windows(log, tmp_path, changes, match):
    made = murmurlog.release(log, out=tmp_path / "b", count_from="2026-02-01", **BUDGET)
    certificate = made.certificate
    text = {**certificate.text, "count_from": changes.get("count_from", "2026-02-01")}
    if text["count_from"] is None:
        del text["count_from"]
    claim = certificate.tables["query"]
    claim = replace(claim, mechanism=changes.get("mechanism", claim.mechanism))
    guarantee = replace(certificate.guarantee, unit=changes.get("unit", "user"))
    forged = replace(certificate, text=text, tables={"query": claim}, guarantee=guarantee)
    publish(tmp_path / "forged", tables=dict(made.tables), certificate=forged)
    checks = {each.name: each for each in murmurlog.verify(tmp_path / "forged").checks}
    assert not checks["windows"].ok
    assert match in checks["windows"].message


def test_evaluation_refuses_what_it_cannot_release_again(log, tmp_path):
    murmurlog.release(log, out=tmp_path / "b", count_from="2026-02-01", **BUDGET)
    with pytest.raises(UsageError, match="evaluation releases one period again"):
        murmurlog.evaluate(log, bundles=[tmp_path / "b"], tasks=["statistics"])

"""A table without rows is sound: it verifies, loads and is shown, split by a column or not."""

from dataclasses import replace

import pytest
from certificates import make_certificate, make_table
from starlette.testclient import TestClient

import murmurlog
from murmurlog.bundle.schema import AT_LEAST, KEYS, SEVERAL, By, with_intervals
from murmurlog.bundle.table_rules import table_fault
from murmurlog.cli.serve import verify_bundle
from murmurlog.web import app
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Hosts

BY = ("country", ["DE", "FR"])
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
NONE = {"accept_no_guarantee": True}
FOUR = ("keyword", "query", "pair", "click")
VIEWS = ("/", "/?q=weather", "/top", "/privacy", "/compare")
# Each table that a mechanism publishes without one row: nobody asks what another asks.
RELEASES = {
    "threshold": {"tables": FOUR, **BUDGET},
    "threshold of sets": {"tables": ("itemset",), **BUDGET},
    "rounds": {"mechanism": "rounds", "tables": FOUR, **BUDGET},
    "korolova": {"mechanism": "korolova", "tables": ("query", "click"), "count": "rows", **BUDGET},
    "zealous": {"mechanism": "zealous", "tables": FOUR, **BUDGET},
    "sessions": {"mechanism": "sessions", "tables": ("session",), **BUDGET},
    "session-tree": {"mechanism": "session-tree", "tables": ("session",), **BUDGET},
    "synthetic": {"mechanism": "synthetic", "tables": ("log",), **BUDGET},
    "k-query": {"mechanism": "k-query:5", "tables": ("query", "keyword", "pair"), **NONE},
    "k-click": {"mechanism": "k-click:5", "tables": ("query", "click"), **NONE},
    "k-keyword": {"mechanism": "k-keyword:5", "tables": ("keyword",), **NONE},
    "k-session": {"mechanism": "k-session:5", "tables": ("session",), **NONE},
}
CASES = [
    (name, by)
    for name, settings in RELEASES.items()
    for by in (None, BY)
    if not (by and set(settings["tables"]) & set(SEVERAL))
]
# On every run; the others differ in how they choose, not in what they write.
OFTEN = {"threshold", "rounds", "k-session", "k-keyword"}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("count", ["users", "rows", None])
@pytest.mark.parametrize("by", [None, By(column="country", values=("DE", "FR"))])
def test_a_table_without_rows_keeps_every_rule(kind, count, by):
    if by and kind in SEVERAL:
        by = None
    table = make_table(kind, count=count, by=by)
    certificate = make_certificate({kind: table}, by=by)
    assert table_fault(kind, table, certificate) is None
    claim = replace(certificate.tables[kind], counting={"meaning": AT_LEAST})
    stated = replace(certificate, tables={kind: claim})
    assert table_fault(kind, with_intervals(table), stated) is None


@pytest.mark.parametrize(
    ("name", "by"),
    [pytest.param(*case, marks=[] if case[0] in OFTEN else pytest.mark.slow) for case in CASES],
)
def test_a_release_without_rows_verifies_loads_and_is_served(name, by, tmp_path):
    log = tmp_path / "log.csv"
    rows = [
        f"u{n},own{n} word{n}{m},2026-01-3{m}T18:00:00,{n}{m}.example,DE"
        for n in range(3)
        for m in range(2)
    ]
    log.write_text("\n".join(["user,query,time,url,country", *rows]) + "\n")
    settings = RELEASES[name]
    murmurlog.release(str(log), out=tmp_path / "b", by=by, **settings)
    tables = murmurlog.load(tmp_path / "b").tables
    assert {kind: table.num_rows for kind, table in tables.items()} == dict.fromkeys(
        settings["tables"], 0
    )
    for table in tables.values():
        assert ("country" in table.column_names) == bool(by)
    failed = [check.message for check in murmurlog.verify(tmp_path / "b").checks if not check.ok]
    assert failed == (
        ["this bundle has NO privacy guarantee and claims none"] if settings.keys() & NONE else []
    )
    bundles = ServedBundles((tmp_path / "b",))
    page = app.make(bundles, verifier=verify_bundle, hosts=Hosts(port=8765))
    client = TestClient(page, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
    answers = {view: client.get(view).status_code for view in VIEWS}
    assert max(answers.values()) < 500, answers
    assert answers["/"] == answers["/privacy"] == 200

"""A loaded bundle in Python: what it answers, and that it is a dataset as ir_datasets knows them."""

import json
import re
from pathlib import Path

import ir_datasets
import ir_measures
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ir_datasets.formats import GenericDoc, GenericQuery, TrecQrel

from murmurlog import load
from murmurlog.bundle.bundle import Release
from murmurlog.bundle.export import export
from murmurlog.bundle.ids import relevance
from murmurlog.bundle.ir_dataset import AggregateQlog, Dataset, Doc, LogItem, Qrel, Query
from murmurlog.errors import UsageError
from murmurlog.publishing.release import release

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
ASKED = (("weather", "w.example"), ("weather paris", "w.example"), ("news", "n.example"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """400 users who all ask for the weather, the weather in Paris and the news, in this order."""
    rows = [
        {"user": f"u{i}", "time": f"2026-01-01 10:{minute:02}:00", "query": query, "url": url}
        for i in range(400)
        for minute, (query, url) in enumerate(ASKED)
    ]
    place = tmp_path_factory.mktemp("python")
    pq.write_table(pa.Table.from_pylist(rows), place / "log.parquet")
    release(
        str(place / "log.parquet"),
        out=place / "bundle",
        tables=["query", "click", "pair"],
        epsilon=20.0,
        delta=1e-4,
    )
    return place


@pytest.fixture(scope="module")
def loaded(folder):
    found = load(folder / "bundle")
    assert {name: table.num_rows for name, table in found.tables.items()} == {
        "query": 3,
        "click": 3,
        "pair": 2,
    }
    return found


def with_tables(loaded, **tables):
    """The release with other tables: what a bundle of these would be."""
    other = Release(loaded.path, loaded.certificate)
    other.__dict__["tables"] = tables
    return other


def texts(found):
    return [text for text, _ in found]


# --- what it answers ------------------------------------------------------------------------------


def test_complete(loaded):
    assert set(texts(loaded.complete("WEA"))) == {"weather", "weather paris"}
    assert texts(loaded.complete("weather ")) == ["weather paris"]
    assert texts(loaded.complete("  ne")) == ["news"]
    assert len(loaded.complete("")) == 3
    assert len(loaded.complete("", 1)) == 1
    counts = dict(loaded.complete("")).values()
    assert all(300 < count < 500 for count in counts)


def test_suggest_says_what_people_asked_next(loaded):
    assert loaded.suggest("Weather ") == [("weather paris", 1.0)]
    assert loaded.suggest("weather paris") == [("news", 1.0)]
    assert loaded.suggest("nobody asked this") == []
    assert loaded.suggest(" ") == []


def test_suggest_falls_back_to_what_is_related(loaded):
    without = with_tables(loaded, click=loaded.tables["click"])
    assert texts(without.suggest("weather")) == ["weather paris"]
    assert without.suggest("weather") == without.related("weather")
    assert without.suggest("news") == []
    only = with_tables(loaded, pair=loaded.tables["pair"])
    assert only.suggest("news") == []


def test_suggest_takes_sessions_where_there_are_any(loaded):
    session = pa.table({"queries": [["weather", "weather paris", "news"]], "users": [400]})
    with_sessions = with_tables(loaded, session=session, pair=loaded.tables["pair"])
    assert dict(with_sessions.suggest("weather")) == {"weather paris": 0.5, "news": 0.5}


def test_search_and_related(loaded):
    assert loaded.search("weather", 1)[0][0] == "w.example"
    assert texts(loaded.related("weather")) == ["weather paris"]
    assert loaded.search("") == loaded.related("\t") == []
    assert all(0 < p <= 1 for _, p in loaded.search("news"))


def test_what_is_asked_for_is_built_once(loaded):
    loaded.search("weather")
    assert loaded._searcher is loaded._searcher


@pytest.mark.parametrize(
    ("method", "needs"),
    [
        ("complete", "a query table"),
        ("suggest", "a pair or click table"),
        ("search", "a click table"),
        ("related", "a click table"),
    ],
)
def test_a_release_without_the_table_says_what_it_has(loaded, method, needs):
    words = with_tables(loaded, keyword=pa.table({"keyword": ["a"], "users": [3]}))
    with pytest.raises(UsageError, match=f"{method} needs {needs}; this release has keyword"):
        getattr(words, method)("a")
    with pytest.raises(UsageError, match="k must be at least 1, not 0"):
        getattr(loaded, method)("a", 0)


def test_a_log_of_invented_users_answers_too(loaded):
    log = pa.table(
        {
            "user": ["1", "2", "2"],
            "query": ["weather", "weather", "news"],
            "url": ["a.example", "a.example", "b.example"],
            "count": [1, 1, 1],
        }
    )
    invented = with_tables(loaded, log=log)
    assert invented.complete("w") == [("weather", 2.0)]
    assert invented.search("news")[0][0] == "b.example"


# --- as a dataset ---------------------------------------------------------------------------------


def test_records_have_the_fields_of_ir_datasets():
    for ours, theirs in ((Query, GenericQuery), (Doc, GenericDoc), (Qrel, TrecQrel)):
        assert ours._fields == theirs._fields
        assert ours.__annotations__ == theirs.__annotations__
    assert Query("1", "weather").default_text() == "weather"
    assert Doc("1", "w.example").default_text() == "w.example"


def test_the_adapter_gives_what_the_export_writes(folder, loaded, tmp_path):
    export(folder / "bundle", to="ir-datasets", out=tmp_path / "files")
    files = ir_datasets.create_dataset(
        docs_tsv=str(tmp_path / "files" / "docs.tsv"),
        queries_tsv=str(tmp_path / "files" / "queries.tsv"),
        qrels_trec=str(tmp_path / "files" / "qrels.txt"),
    )
    data = Dataset(loaded)
    assert list(data.queries_iter()) == [tuple(q) for q in files.queries_iter()]
    assert list(data.docs_iter()) == [tuple(d) for d in files.docs_iter()]
    assert list(data.qrels_iter()) == [tuple(q) for q in files.qrels_iter()]
    lines = (tmp_path / "files" / "qlogs.jsonl").read_text(encoding="utf-8").splitlines()
    written = [json.loads(line) for line in lines]
    assert [(q.query_id, q.query, q.users) for q in data.qlogs_iter()] == [
        (w["query_id"], w["query"], w["users"]) for w in written
    ]
    assert [[[i.doc_id, i.users] for i in q.items] for q in data.qlogs_iter()] == [
        w["items"] for w in written
    ]


def test_ir_datasets_takes_the_adapter_as_its_own(loaded):
    data = Dataset(loaded)
    theirs = ir_datasets.Dataset(data)
    for what in ("docs", "queries", "qrels", "qlogs"):
        assert theirs.has(what)
    assert not theirs.has_scoreddocs()
    assert len(theirs.queries) == len(theirs.qlogs) == len(theirs.qrels) == 3
    assert len(theirs.docs) == 2
    assert list(theirs.queries) == list(data.queries_iter())
    assert [theirs.queries.type, theirs.docs.type, theirs.qrels.type, theirs.qlogs.type] == [
        *(Query, Doc, Qrel, AggregateQlog)
    ]
    assert set(theirs.qrels.defs) == {qrel.relevance for qrel in data.qrels_iter()}


def test_ir_measures_takes_the_grades(loaded):
    data = Dataset(loaded)
    by_clicks = with_tables(loaded, click=loaded.tables["click"])
    names = {query.text: query.query_id for query in data.queries_iter()}
    pages = {doc.text: doc.doc_id for doc in data.docs_iter()}
    run = [
        ir_measures.ScoredDoc(names[query], pages[url], score)
        for query in names
        for url, score in by_clicks.search(query)
    ]
    found = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], data.qrels_iter(), run)
    assert found[ir_measures.nDCG @ 10] == pytest.approx(1.0)


def test_counts_of_rows_and_no_counts(loaded):
    query = pa.table({"query": ["a", "b"], "rows": [9, 4]})
    click = pa.table({"query": ["a"], "url": ["x"]})
    data = Dataset(with_tables(loaded, query=query, click=click))
    a, b = data.qlogs_iter()
    assert (a.users, a.rows, b.users, b.rows) == (None, 9, None, 4)
    assert a.items == (LogItem(next(data.docs_iter()).doc_id, None, None),)
    assert b.items == ()
    assert [q.relevance for q in data.qrels_iter()] == [1]


def test_what_the_grades_mean(loaded):
    counts = [1, 3, 4, 7, 8, 600]
    click = pa.table({"query": list("abcdef"), "url": ["x"] * 6, "users": counts})
    data = Dataset(with_tables(loaded, click=click))
    assert data.qrels_defs() == {
        1: "clicked: a noisy count of at most 3, or none given",
        2: "clicked: a noisy count of 4 to 7",
        3: "clicked: a noisy count of 8 to 15",
        9: "clicked: a noisy count of 512 to 1023",
    }
    assert [q.relevance for q in data.qrels_iter()] == [relevance(n) for n in counts]


def test_a_release_without_clicks_has_no_docs_and_no_qrels(loaded):
    data = Dataset(with_tables(loaded, pair=loaded.tables["pair"]))
    assert data.queries_count() == 3
    assert [q.items for q in data.qlogs_iter()] == [()] * 3
    for refused in (data.docs_iter, data.qrels_iter, data.docs_count, data.qrels_count):
        with pytest.raises(UsageError, match="no click table, so it has no docs and no qrels"):
            refused()


def test_a_release_without_queries_is_no_dataset(loaded):
    with pytest.raises(UsageError, match="needs queries, and this release has only: keyword"):
        Dataset(with_tables(loaded, keyword=pa.table({"keyword": ["a"], "users": [1]})))


def test_the_examples_of_the_page_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    names = {}
    for code in blocks:
        exec(code, names)
    assert names["release"].complete("we")
    assert names["dataset"].has_qrels()

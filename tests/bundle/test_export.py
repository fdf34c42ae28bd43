"""Bundles in the files of other tools: what is in them, what they say, and that the tools load them."""

import csv
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import duckdb
import frictionless
import mlcroissant
import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from command import run
from hypothesis import given
from hypothesis import strategies as st

import murmurlog.bundle.export as module
from murmurlog.auditing.verify import verify
from murmurlog.bundle.export import escape_cell, export, ids, relevance, unescape_cell
from murmurlog.bundle.files import sums
from murmurlog.bundle.graph import EDGES, NODES, graph
from murmurlog.bundle.read import load
from murmurlog.errors import BundleError, UsageError
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.release import release

BUDGET = {"epsilon": 4.0, "delta": 1e-4}
QUERIES = ("weather", "null", "=1+1", '"quoted', "'tis", "-5", "a<b & c]]>")
MURMURLOG = Path(sys.executable).with_name("murmurlog")


def page(query):
    return f"{QUERIES.index(query)}.example/p&q"


COLUMNS = ["query", "users", "users_low", "users_high", "users_stderr", "reliable"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """300 users who all ask the same awkward queries and click on a page for each."""
    rows = [
        {"user": f"u{i}", "time": f"2026-01-0{j + 1}", "query": query, "url": page(query)}
        for i in range(300)
        for j, query in enumerate(QUERIES)
    ]
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def release_log(log, folder, **more):
    release(str(log), out=folder, **BUDGET, **more)
    return folder


@pytest.fixture(scope="module")
def bundle(log, tmp_path_factory):
    about = {"title": "Shop searches", "publisher": "A Shop", "license": "CC-BY-4.0"}
    return release_log(log, tmp_path_factory.mktemp("released") / "bundle", about=about)


@pytest.fixture(scope="module")
def queries_only(log, tmp_path_factory):
    return release_log(log, tmp_path_factory.mktemp("released") / "bundle", tables=["query"])


@pytest.fixture(scope="module")
def words_only(log, tmp_path_factory):
    return release_log(log, tmp_path_factory.mktemp("released") / "bundle", tables=["keyword"])


@pytest.fixture(scope="module")
def bundle_of_lists(log_of_sessions, tmp_path_factory):
    """A bundle with session and itemset tables."""
    folder = tmp_path_factory.mktemp("released") / "bundle"
    more = {"mechanism": "sessions", "tables": ["session", "itemset"], "per_user": 3}
    release(str(log_of_sessions), out=folder, epsilon=20.0, delta=1e-4, **more)
    return folder


@pytest.fixture(scope="module")
def bundle_of_sets(log_of_sessions, tmp_path_factory):
    """A bundle with a query and an itemset table."""
    folder = tmp_path_factory.mktemp("released") / "bundle"
    more = {"tables": ["query", "itemset"], "per_user": 7}
    release(str(log_of_sessions), out=folder, epsilon=20.0, delta=1e-4, **more)
    return folder


@pytest.fixture(scope="module")
def invented(log_of_sessions, tmp_path_factory):
    """A bundle with a log of invented users, with ranks and hours."""
    folder = tmp_path_factory.mktemp("released") / "bundle"
    more = {"mechanism": "synthetic", "tables": ["log"], "per_user": 7, "measure": "rank,hour"}
    release(str(log_of_sessions), out=folder, epsilon=20.0, delta=1e-4, **more)
    return folder


@pytest.fixture(scope="module")
def log_of_sessions(tmp_path_factory):
    """600 users with the same session of awkward queries and clicks."""
    rows = [
        {"user": f"u{i}", "time": f"2026-01-01 10:0{j}:00", "query": query, "url": page(query)}
        | {"rank": j + 1}
        for i in range(600)
        for j, query in enumerate(QUERIES)
    ]
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle, tmp_path / "bundle")


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """No tool looks at the network or writes into the home folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "ir-home"))
    monkeypatch.setenv("IR_DATASETS_TMP", str(tmp_path / "ir-tmp"))


def users(bundle, table="query"):
    """{keys: users} of a table."""
    rows = load(bundle).tables[table].to_pylist()
    return {
        tuple(v for k, v in r.items() if k in ("query", "url", "keyword")): r["users"] for r in rows
    }


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def reseal(root):
    """Makes the checksums right again, as a forger would."""
    text = "".join(f"{digest}  {name}\n" for name, digest in sums(root).items())
    (root / "SHA256SUMS").write_text(text)


def rewrite(root, **columns):
    """Puts other columns into the query table and makes the checksums right again."""
    path = root / "data" / "query.parquet"
    table = pq.read_table(path)
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, path)
    reseal(root)


def test_the_bundle_of_these_tests_holds_every_awkward_query(bundle):
    assert {query for (query,) in users(bundle)} == set(QUERIES)
    assert set(users(bundle, "click")) == {(q, page(q)) for q in QUERIES}


# --- every export ---------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["csv", "tsv", "trec", "ir-datasets", "graph", "hf"])
def test_every_folder_says_what_is_protected_and_has_its_checksums(bundle, tmp_path, to):
    done = export(bundle, to=to, out=tmp_path / "out")
    readme = tmp_path / "out" / ("README.md" if to == "hf" else "README.txt")
    text, certificate = " ".join(readme.read_text().split()), load(bundle).certificate
    assert "Protected unit: one user" in text
    assert "(epsilon 4)" in text
    assert f"{certificate.guarantee.delta:.3g} (delta)" in text
    assert certificate.release_id in text
    assert "Shop searches" in text
    assert "CC-BY-4.0" in text
    assert "NOT PRIVATE" not in text
    checked = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True
    )
    assert checked.returncode == 0
    stated = {line.split("  ")[1] for line in lines(tmp_path / "out" / "SHA256SUMS")}
    files = {str(p.relative_to(done.out)) for p in done.out.rglob("*") if p.is_file()}
    assert files == stated | {"SHA256SUMS"}
    assert set(done.files) <= stated
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]  # nothing is left beside it


def test_an_export_of_a_seeded_bundle_is_marked_as_not_private(log, tmp_path):
    seeded = release_log(log, tmp_path / "seeded", entropy=SeededEntropy(1))
    for to in ("csv", "tsv", "trec", "ir-datasets", "graph", "hf"):
        export(seeded, to=to, out=tmp_path / to)
        readme = "README.md" if to == "hf" else "README.txt"
        assert "NOT PRIVATE" in (tmp_path / to / readme).read_text()


@pytest.mark.parametrize("to", ["csv", "tsv", "trec", "ir-datasets", "graph", "hf"])
def test_the_same_bundle_gives_the_same_bytes(bundle, tmp_path, to):
    for name in ("a", "b"):
        export(bundle, to=to, out=tmp_path / name)
    assert sums(tmp_path / "a") == sums(tmp_path / "b")


def test_a_bundle_that_published_nothing_gives_empty_files(log, tmp_path):
    few = pq.read_table(log).slice(0, len(QUERIES))  # one user
    pq.write_table(few, tmp_path / "few.parquet")
    seed = SeededEntropy(1)  # secret noise publishes something once in 10,000 times
    empty = release_log(tmp_path / "few.parquet", tmp_path / "bundle", entropy=seed)
    for to in ("csv", "tsv", "trec", "ir-datasets", "graph", "hf"):
        assert set(export(empty, to=to, out=tmp_path / to).files.values()) == {0}


def test_an_export_never_loads_what_reads_logs():
    code = "import murmurlog.bundle.export, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {module.split(".")[1] for module in done.stdout.split() if "murmurlog." in module}
    assert loaded == {"errors", "privacy", "charts", "bundle"}


def test_an_export_that_fails_leaves_nothing_behind(bundle, tmp_path, monkeypatch):
    def fail(root, release):
        (root / "half").write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setitem(module.WRITERS, "tsv", fail)
    with pytest.raises(OSError, match="the disk is full"):
        export(bundle, to="tsv", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# --- csv ------------------------------------------------------------------------------------------


def test_csv_has_a_file_for_each_table_that_readers_take_without_options(bundle, tmp_path):
    done = export(bundle, to="csv", out=tmp_path / "out")
    assert done.files == {"query.csv": 7, "click.csv": 7}
    path, expected = done.out / "query.csv", users(bundle)
    frame = pandas.read_csv(path, keep_default_na=False)
    assert list(frame.columns) == COLUMNS
    assert {
        (unescape_cell(q),): n for q, n in zip(frame["query"], frame["users"], strict=True)
    } == expected
    rows = duckdb.sql(f"from '{path}'")
    assert rows.types == ["VARCHAR", "BIGINT", "BIGINT", "BIGINT", "DOUBLE", "BOOLEAN"]
    assert {(unescape_cell(q),): n for q, n, *_ in rows.fetchall()} == expected
    assert {row[0][0] for row in csv.reader(path.read_text().splitlines())}.isdisjoint(set('=+-@"'))


def test_csv_quotes_as_rfc_4180_says(tmp_path):
    texts = ["a, b", 'say "yes", please', "=a,b", "plain", "ü"]
    table = pa.table({"query": texts, "url": ["x", None, "y", "z", "w"], "users": range(5)})
    assert module.csv_file(tmp_path / "q.csv", table) == 5
    assert (tmp_path / "q.csv").read_bytes().decode().split("\r\n") == [
        "query,url,users",
        '"a, b",x,0',
        '"say ""yes"", please",,1',
        '"\'=a,b",y,2',
        "plain,z,3",
        "ü,w,4",
        "",
    ]


# --- tsv ------------------------------------------------------------------------------------------


def test_tsv_has_a_file_for_each_table_and_undoes_to_the_same_texts(bundle, tmp_path):
    done = export(bundle, to="tsv", out=tmp_path / "out")
    assert done.files == {"query.tsv.gz": 7, "click.tsv.gz": 7}
    with gzip.open(done.out / "query.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        head, *rows = [line.removesuffix("\n").split("\t") for line in file]
    assert head == COLUMNS
    table = load(bundle).tables["query"].to_pylist()
    assert [unescape_cell(row[0]) for row in rows] == [row["query"] for row in table]
    assert [int(row[1]) for row in rows] == [row["users"] for row in table]
    assert [float(row[4]) for row in rows] == [row["users_stderr"] for row in table]
    assert {row[5] for row in rows} <= {"true", "false"}
    begins = {row[0][0] for row in rows}
    assert begins.isdisjoint(set('=+-@"'))


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@sum", " =1", "\u3000=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20a"]
    + ["\ufe661", "\u22121", '"=1"', "'=1", "'tis", "\t=1", "\r=1", "\xa0-1", "\u200d=1"],
)
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text):
    assert escape_cell(text) == "'" + text
    assert unescape_cell(escape_cell(text)) == text


@pytest.mark.parametrize("text", ["weather", "a=b", "1-1", "c++", "me@home", "it's", ""])
def test_other_texts_stay_as_they_are(text):
    assert escape_cell(text) == text


@given(st.text(alphabet=st.sampled_from(" '\"=+-@\uff1dab"), max_size=6) | st.text())
def test_defusing_can_always_be_undone(text):
    assert unescape_cell(escape_cell(text)) == text


def test_the_lines_of_the_docs_read_tsv_with_pandas_duckdb_and_polars(bundle, tmp_path):
    path = export(bundle, to="tsv", out=tmp_path / "out").out / "query.tsv.gz"
    expected = users(bundle)
    frame = pandas.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)
    assert {
        (unescape_cell(q),): n for q, n in zip(frame["query"], frame["users"], strict=True)
    } == expected
    rows = duckdb.sql(f"from read_csv('{path}', delim='\t', quote='', escape='', header=true)")
    assert rows.types == ["VARCHAR", "BIGINT", "BIGINT", "BIGINT", "DOUBLE", "BOOLEAN"]
    assert {(unescape_cell(q),): n for q, n, *_ in rows.fetchall()} == expected
    table = polars.read_csv(path, separator="\t", quote_char=None)
    assert {(unescape_cell(q),): n for q, n, *_ in table.rows()} == expected


# --- trec and ir-datasets -------------------------------------------------------------------------


def test_trec_has_queries_pages_and_grades(bundle, tmp_path):
    done = export(bundle, to="trec", out=tmp_path / "out")
    assert done.files == {"queries.tsv": 7, "docs.tsv": 7, "qrels.txt": 7}
    queries = dict(line.split("\t") for line in lines(done.out / "queries.tsv"))
    docs = dict(line.split("\t") for line in lines(done.out / "docs.tsv"))
    for qid, query in queries.items():
        assert qid == hashlib.md5(query.encode()).hexdigest()[:14]
    for docid, url in docs.items():
        assert docid == hashlib.md5(url.encode()).hexdigest()[:12]
    clicks = users(bundle, "click")
    for line in lines(done.out / "qrels.txt"):
        qid, zero, docid, rel = line.split(" ")
        assert zero == "0"
        assert 2 ** int(rel) <= clicks.pop((queries[qid], docs[docid])) < 2 ** (int(rel) + 1)
    assert clicks == {}


def test_grades_are_the_whole_part_of_log2_and_at_least_one():
    counts = {None: 1, -3: 1, 0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 7: 2, 8: 3, 1023: 9, 1024: 10}
    assert {count: relevance(count) for count in counts} == counts


def test_two_texts_with_one_id_are_an_error():
    assert ids(["a", "b", "a"], 14) == {"a": "0cc175b9c0f1b6", "b": "92eb5ffee6ae2f"}
    with pytest.raises(UsageError, match=r"two texts have the id 8 \(1 digits of MD5\).*--to tsv"):
        ids(["d", "f"], 1)


def test_without_clicks_trec_has_queries_and_says_so(queries_only, tmp_path):
    done = export(queries_only, to="trec", out=tmp_path / "out")
    sentence = "There is no click table in this bundle: no qrels.txt, no docs.tsv."
    assert done.notes == (sentence,)
    assert done.files == {"queries.tsv": 7}
    assert sentence in (tmp_path / "out" / "README.txt").read_text()


def test_without_counts_every_grade_is_one_and_it_says_so(log, tmp_path):
    folder = release_log(log, tmp_path / "bundle", set_only=True)
    done = export(folder, to="ir-datasets", out=tmp_path / "out")
    assert done.notes == ("Published without counts: query, click. Every rel is 1.",)
    assert {line[-2:] for line in lines(done.out / "qrels.txt")} == {" 1"}
    for line in lines(done.out / "qlogs.jsonl"):
        record = json.loads(line)
        assert record["users"] is None
        assert record["items"][0][1] is None


def test_ir_datasets_reads_queries_pages_and_grades(bundle, tmp_path, offline):
    import ir_datasets

    done = export(bundle, to="ir-datasets", out=tmp_path / "out")
    assert done.files == {"queries.tsv": 7, "docs.tsv": 7, "qrels.txt": 7, "qlogs.jsonl": 7}
    data = ir_datasets.create_dataset(
        docs_tsv=done.out / "docs.tsv",
        queries_tsv=done.out / "queries.tsv",
        qrels_trec=done.out / "qrels.txt",
    )
    queries = {query.query_id: query.text for query in data.queries_iter()}
    docs = {doc.doc_id: doc.text for doc in data.docs_iter()}
    assert set(queries.values()) == set(QUERIES)
    assert {(queries[r.query_id], docs[r.doc_id]): r.relevance for r in data.qrels_iter()} == {
        key: relevance(n) for key, n in users(bundle, "click").items()
    }

    class AggQlog(NamedTuple):
        query_id: str
        query: str
        users: int | None
        items: list[tuple[str, int]]

    logs = [AggQlog(**json.loads(line)) for line in lines(done.out / "qlogs.jsonl")]
    assert {(log.query,): log.users for log in logs} == users(bundle)
    clicks = {(log.query, docs[doc]): n for log in logs for doc, n in log.items}
    assert clicks == users(bundle, "click")


# --- hf -------------------------------------------------------------------------------------------


def loaded_by_hugging_face(folder, cache):
    import datasets  # late: it reads the variables of `quiet` when it is imported

    loaded = datasets.load_dataset(str(folder), "query", cache_dir=str(cache))
    return {(row["query"],): row["users"] for row in loaded["train"]}


def test_hugging_face_loads_the_export_and_verify_accepts_it(bundle, tmp_path, offline):
    done = export(bundle, to="hf", out=tmp_path / "out")
    assert done.files == {"data/query.parquet": 7, "data/click.parquet": 7}
    assert loaded_by_hugging_face(done.out, tmp_path / "cache") == users(bundle)
    assert verify(done.out).ok


# --- graph ----------------------------------------------------------------------------------------

COUNTED = {"users": [9, 5], "users_stderr": [1.5, 2.0], "reliable": [True, False]}


def small_tables():
    return {
        "query": pa.table({"query": ["a", "b"], **COUNTED}),
        "click": pa.table({"query": ["a", "c"], "url": ["x", "a"], **COUNTED}),
        "pair": pa.table({"query": ["a", "b"], "next_query": ["b", "d"], **COUNTED}),
        "keyword": pa.table({"keyword": ["a", "b"], **COUNTED}),
    }


def test_queries_and_urls_are_nodes_clicks_and_reformulations_are_edges():
    whole = graph(small_tables())
    nodes = {row["id"]: (row["kind"], row["text"], row["users"]) for row in whole.nodes.to_pylist()}
    assert nodes == {
        "query:a": ("query", "a", 9),
        "query:b": ("query", "b", 5),
        "query:c": ("query", "c", None),  # clicked for, but not in the query table
        "query:d": ("query", "d", None),
        "url:x": ("url", "x", None),
        "url:a": ("url", "a", None),  # the same text as a query, and not the same node
    }
    edges = whole.edges.select(["source", "target", "kind", *COUNTED]).to_pylist()
    assert [tuple(row.values()) for row in edges] == [
        ("query:a", "url:x", "click", 9, 1.5, True),
        ("query:c", "url:a", "click", 5, 2.0, False),
        ("query:a", "query:b", "reformulation", 9, 1.5, True),
        ("query:b", "query:d", "reformulation", 5, 2.0, False),
    ]


def test_a_graph_is_made_of_whatever_tables_there_are():
    tables = small_tables()
    assert graph({}).edges.num_rows == graph({}).nodes.num_rows == 0
    assert graph({"query": tables["query"]}).nodes["id"].to_pylist() == ["query:a", "query:b"]
    only_pairs = graph({"other name": tables["pair"].select(["query", "next_query"])})
    assert only_pairs.nodes["id"].to_pylist() == ["query:a", "query:b", "query:d"]
    assert only_pairs.edges["users"].to_pylist() == [None, None]
    rows = pa.table({"query": ["a"], "rows": [7], "rows_stderr": [1.0], "reliable": [True]})
    counted = graph({"query": rows}).nodes.to_pylist()[0]
    assert (counted["rows"], counted["users"]) == (7, None)
    for part in (graph({}), graph(tables), only_pairs):
        assert part.nodes.schema.equals(NODES)
        assert part.edges.schema.equals(EDGES)


def test_graph_folder_has_nodes_and_edges(bundle, tmp_path):
    done = export(bundle, to="graph", out=tmp_path / "out")
    assert done.files == {"nodes.tsv": 14, "edges.tsv": 7}
    options = {"sep": "\t", "quoting": csv.QUOTE_NONE, "keep_default_na": False}
    nodes = pandas.read_csv(done.out / "nodes.tsv", **options)
    edges = pandas.read_csv(done.out / "edges.tsv", **options)
    assert list(nodes.columns) == NODES.names
    assert list(edges.columns) == EDGES.names
    assert set(edges["source"]) | set(edges["target"]) <= set(nodes["id"])
    ends = zip(edges["source"], edges["target"], edges["users"], strict=True)
    assert {(s.removeprefix("query:"), t.removeprefix("url:")): n for s, t, n in ends} == users(
        bundle, "click"
    )


def test_a_bundle_with_pairs_gives_edges_between_queries(tmp_path):
    rows = [
        {"user": f"u{i}", "time": f"2026-01-01 10:0{j}:00", "query": query}
        for i in range(300)
        for j, query in enumerate(("a", "b", "c"))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    folder = release_log(tmp_path / "log.parquet", tmp_path / "bundle", tables=["query", "pair"])
    done = export(folder, to="graph", out=tmp_path / "out")
    assert done.files == {"nodes.tsv": 3, "edges.tsv": 2}
    edges = pandas.read_csv(done.out / "edges.tsv", sep="\t")
    assert set(edges["kind"]) == {"reformulation"}
    ends = set(zip(edges["source"], edges["target"], strict=True))
    assert ends == {("query:a", "query:b"), ("query:b", "query:c")}


def test_a_graph_without_clicks_has_no_edges_and_says_so(queries_only, tmp_path):
    done = export(queries_only, to="graph", out=tmp_path / "graph")
    assert done.notes == ("There is no click table in this bundle: the graph has no click edges.",)
    assert done.files == {"nodes.tsv": 7, "edges.tsv": 0}


# --- what is refused ------------------------------------------------------------------------------


def test_an_unknown_form_is_refused(bundle, tmp_path):
    with pytest.raises(
        UsageError, match="--to must be one of csv, tsv, trec, .* graph, parquet, not 'xls'"
    ):
        export(bundle, to="xls", out=tmp_path / "out")


def test_an_out_that_exists_is_refused_and_stays(bundle, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(UsageError, match="out' exists: choose another"):
        export(bundle, to="tsv", out=out)
    file = tmp_path / "graph"
    file.write_text("mine")
    with pytest.raises(UsageError, match="graph' exists: choose another"):
        export(bundle, to="graph", out=file)
    assert file.read_text() == "mine"
    with pytest.raises(UsageError, match="there is no folder"):
        export(bundle, to="tsv", out=tmp_path / "no" / "out")


def test_an_out_inside_the_bundle_is_refused(copy):
    for out in (copy / "tsv", copy / "data" / "tsv"):
        with pytest.raises(UsageError, match="is inside the bundle: choose a place beside it"):
            export(copy, to="tsv", out=out)
    assert verify(copy).ok


def test_what_is_no_bundle_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nothing"):
        with pytest.raises(
            BundleError, match="is no bundle: there is no (privacy.json in it|such folder)"
        ):
            export(tmp_path / name, to="tsv", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("to", ["trec", "ir-datasets", "graph"])
def test_a_bundle_without_queries_has_nothing_to_give_these(words_only, tmp_path, to):
    with pytest.raises(UsageError, match=f"--to {to} needs queries.* only: keyword. Use --to tsv"):
        export(words_only, to=to, out=tmp_path / "out")
    assert export(words_only, to="tsv", out=tmp_path / "out").files["keyword.tsv.gz"] > 0


def test_tables_split_by_a_column_go_where_there_is_a_place_for_it(log, tmp_path):
    table = pq.read_table(log)
    countries = pa.array([("DE", "FR")[int(u[1:]) % 2] for u in table["user"].to_pylist()])
    pq.write_table(table.append_column("country", countries), tmp_path / "log.parquet")
    by = ("country", ["DE", "FR"])
    folder = release_log(tmp_path / "log.parquet", tmp_path / "bundle", by=by)
    tsv = export(folder, to="tsv", out=tmp_path / "tsv")
    frame = pandas.read_csv(tsv.out / "query.tsv.gz", sep="\t", quoting=csv.QUOTE_NONE)
    assert set(frame["country"]) == {"DE", "FR"}
    assert verify(export(folder, to="hf", out=tmp_path / "hf").out).ok
    for to in ("trec", "ir-datasets", "graph"):
        match = (
            f"--to {to} has no place for the column 'country'.*: use --to csv, --to tsv or --to hf"
        )
        with pytest.raises(UsageError, match=match):
            export(folder, to=to, out=tmp_path / "out")
    tables = load(folder).tables
    with pytest.raises(UsageError, match="table query is split by country.* keep the rows of one"):
        graph(tables)
    only = {n: t.filter(pc.equal(t["country"], "DE")).drop("country") for n, t in tables.items()}
    assert graph(only).edges.num_rows == len(QUERIES)


def test_a_changed_bundle_is_refused(copy, tmp_path):
    def refused(match):
        with pytest.raises(BundleError, match=match) as caught:
            export(copy, to="tsv", out=tmp_path / "out")
        assert str(caught.value).endswith(f"See what is wrong: murmurlog verify {copy}")

    (copy / "README.md").write_text("another")
    refused("the files do not match SHA256SUMS")
    (copy / "more").write_text("more")
    refused("has too many or too few files")
    (copy / "more").unlink()
    (copy / "README.md").unlink()
    (copy / "README.md").symlink_to("/etc/hostname")
    refused("there is a link in")


def test_a_table_that_cannot_be_is_refused(copy, tmp_path):
    def refused(match):
        with pytest.raises(BundleError, match=match):
            export(copy, to="tsv", out=tmp_path / "out")

    rewrite(copy, query=pa.array(["a\tb", *QUERIES[1:]]))
    refused("data/query.parquet holds control characters, which normalised text has not")
    rewrite(copy, query=pa.array(["a\u2028b", *QUERIES[1:]]))
    refused("holds control characters")
    rewrite(copy, query=pa.array([None, *QUERIES[1:]]))
    refused("data/query.parquet has empty values")
    broken = pa.array([b"\xff", *(q.encode() for q in QUERIES[1:])]).view(pa.string())
    rewrite(copy, query=broken)
    refused("data/query.parquet holds text that is not UTF-8")
    rewrite(copy, query=pa.array(QUERIES), users=pa.array([1.5] * 7))
    refused("data/query.parquet has columns")


def test_a_table_with_a_name_that_leads_elsewhere_is_refused(copy, tmp_path):
    text = (copy / "privacy.json").read_text()
    (copy / "privacy.json").write_text(text.replace('"query": {', '"../../query": {'))
    reseal(copy)
    with pytest.raises(BundleError, match="names the unknown table '../../query'"):
        export(copy, to="tsv", out=tmp_path / "out")


# --- one line for each tool that loads a bundle ---------------------------------------------------


def test_duckdb_loads_a_bundle(bundle, monkeypatch):
    monkeypatch.chdir(bundle)
    rows = duckdb.sql("from 'data/query.parquet'").fetchall()
    assert {(query,): n for query, n, *_ in rows} == users(bundle)


def test_pandas_loads_a_bundle(bundle, monkeypatch):
    monkeypatch.chdir(bundle)
    frame = pandas.read_parquet("data/query.parquet")
    assert {(q,): n for q, n in zip(frame["query"], frame["users"], strict=True)} == users(bundle)


def test_polars_loads_a_bundle(bundle, monkeypatch):
    monkeypatch.chdir(bundle)
    table = polars.read_parquet("data/query.parquet")
    assert {(query,): n for query, n, *_ in table.rows()} == users(bundle)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib's, inside mlcroissant
def test_mlcroissant_loads_a_bundle(bundle, monkeypatch):
    monkeypatch.chdir(bundle)
    rows = mlcroissant.Dataset("croissant.json").records(record_set="query")
    assert {(r["query/query"].decode(),): r["query/users"] for r in rows} == users(bundle)


def test_frictionless_loads_a_bundle(bundle, monkeypatch):
    monkeypatch.chdir(bundle)
    assert frictionless.validate("datapackage.json").valid
    rows = frictionless.Package("datapackage.json").get_resource("query").read_rows()
    assert {(row["query"],): row["users"] for row in rows} == users(bundle)


def test_hugging_face_loads_a_bundle(bundle, tmp_path, offline):
    assert loaded_by_hugging_face(bundle, tmp_path / "cache") == users(bundle)


def examples(name):
    """The Python blocks of a page that load something."""
    text = (Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib's, inside mlcroissant
def test_the_examples_of_the_bundle_page_run(bundle, offline, monkeypatch):
    monkeypatch.chdir(bundle)
    assert len(examples("reference/bundle.md")) == 7
    for code in examples("reference/bundle.md"):
        exec(code, {})
    assert verify(bundle).ok  # no tool left anything in it


def test_the_examples_of_the_export_page_run(bundle, offline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundle, "bundle")
    for to in ("tsv", "trec", "hf", "ir-datasets", "graph"):
        export("bundle", to=to, out=to)
    assert len(examples("how-to/export.md")) == 6
    for code in examples("how-to/export.md"):  # the first makes csv
        exec(code, {"__name__": "example"})


# --- lists, and logs of invented users ------------------------------------------------------------

OTHERS = [
    ("bundle_of_lists", "session"),
    ("bundle_of_lists", "itemset"),
    ("bundle_of_sets", "itemset"),
    ("invented", "log"),
]
others = pytest.mark.parametrize(("name", "table"), OTHERS)


@pytest.fixture
def other(name, table, request, monkeypatch):
    """The rows of the table, with its bundle as the current folder."""
    folder = request.getfixturevalue(name)
    monkeypatch.chdir(folder)
    rows = load(folder).tables[table].to_pylist()
    assert rows
    assert any(key in rows[0] for key in ("queries", "items", "user"))
    return rows


@others
def test_duckdb_pandas_and_polars_load_lists_and_logs(other, table):
    rows = duckdb.sql(f"from 'data/{table}.parquet'")
    assert [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()] == other
    frame = pandas.read_parquet(f"data/{table}.parquet")
    for column in frame.columns:
        values = frame[column].map(list) if column in ("queries", "items") else frame[column]
        there = values[values.notnull()] if column == "users_high" else values
        assert there.tolist() == [row[column] for row in other if row[column] is not None]
    assert polars.read_parquet(f"data/{table}.parquet").to_dicts() == other


@others
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib's, inside mlcroissant
def test_mlcroissant_loads_lists_and_logs_and_has_no_complaint(other, table, caplog):
    data = mlcroissant.Dataset("croissant.json")
    assert data.metadata.ctx.issues.report() == ""
    rows = list(data.records(record_set=table))
    assert caplog.records == []

    def text(value):
        return value.decode() if isinstance(value, bytes) else value

    plain = [
        {
            key.removeprefix(f"{table}/"): list(map(text, value))
            if isinstance(value, list)
            else text(value)
            for key, value in row.items()
        }
        for row in rows
    ]
    assert plain == other


@others
def test_frictionless_loads_lists_and_logs(other, table):
    rows = frictionless.Package("datapackage.json").get_resource(table).read_rows()
    assert frictionless.validate("datapackage.json").valid
    assert [_plain_row(row) for row in rows] == other


def _plain_row(row):
    """A row of frictionless, whose lists are arrays of numpy and whose numbers are decimals."""
    values = {n: list(v) if hasattr(v, "tolist") else v for n, v in row.to_dict().items()}
    numbers = {n: float(v) if n.endswith("stderr") else v for n, v in values.items()}
    return {n: None if v != v else v for n, v in numbers.items()}  # NaN: there is no upper end


@others
def test_hugging_face_loads_lists_and_logs(other, name, table, request, tmp_path, offline):
    import datasets

    folder, cache = request.getfixturevalue(name), str(tmp_path / "cache")
    assert list(datasets.load_dataset(str(folder), table, cache_dir=cache)["train"]) == other
    copied = export(folder, to="hf", out=tmp_path / "hf")
    assert copied.files[f"data/{table}.parquet"] == len(other)
    assert verify(copied.out).ok


@others
def test_tsv_holds_lists_as_json_and_nothing_a_spreadsheet_runs(
    other, name, table, request, tmp_path
):
    done = export(request.getfixturevalue(name), to="tsv", out=tmp_path / "tsv")
    path = done.out / f"{table}.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        head, *rows = [line.removesuffix("\n").split("\t") for line in file]
    assert head == list(other[0])
    for cells, row in zip(rows, other, strict=True):
        for cell, value in zip(cells, row.values(), strict=True):
            assert (cell == "") == (value is None)
            assert cell[:1] not in tuple('=+-@"')
            if isinstance(value, list):
                assert cell[0] == "["
                assert json.loads(cell) == value
            elif isinstance(value, str):
                assert unescape_cell(cell) == value
    assert "A list of texts is written as JSON" in " ".join(
        (done.out / "README.txt").read_text().split()
    )
    # Lists and texts come back with the lines of the docs too.
    frame = pandas.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)
    if table != "log":
        assert [json.loads(cell) for cell in frame[head[0]]] == [row[head[0]] for row in other]


def test_a_bundle_with_itemsets_gives_a_graph_and_trec_files_of_its_queries(
    bundle_of_sets, tmp_path
):
    of_sets = graph(load(bundle_of_sets).tables)
    assert of_sets.left_out == ("itemset",)
    assert {row["text"]: row["users"] for row in of_sets.nodes.to_pylist()} == {
        query: n for (query,), n in users(bundle_of_sets).items()
    }
    assert export(bundle_of_sets, to="graph", out=tmp_path / "graph").files == {
        "nodes.tsv": 7,
        "edges.tsv": 0,
    }
    for to in ("trec", "ir-datasets"):
        done = export(bundle_of_sets, to=to, out=tmp_path / to)
        assert {line.split("\t")[1] for line in lines(done.out / "queries.tsv")} == set(QUERIES)
        assert not (done.out / "qrels.txt").exists()


def test_a_bundle_of_lists_alone_has_no_graph_and_no_trec_files(bundle_of_lists, tmp_path):
    for to in ("trec", "ir-datasets", "graph"):
        match = f"--to {to} needs queries, .* has only: session, itemset. Use --to tsv"
        with pytest.raises(UsageError, match=match):
            export(bundle_of_lists, to=to, out=tmp_path / "out")
    empty = graph(load(bundle_of_lists).tables)  # in Python it is empty and says why
    assert (empty.nodes.num_rows, empty.edges.num_rows) == (0, 0)
    assert empty.left_out == ("session", "itemset")


def test_the_queries_and_urls_of_an_invented_log_are_nodes_without_counts_or_clicks(
    invented, tmp_path
):
    of_log = graph(load(invented).tables)
    assert of_log.left_out == ("log",)
    assert of_log.edges.num_rows == 0
    assert set(of_log.nodes["text"].to_pylist()) == set(QUERIES) | {page(q) for q in QUERIES}
    assert of_log.nodes["users"].null_count == of_log.nodes.num_rows == 14
    done = export(invented, to="graph", out=tmp_path / "graph")
    assert done.files == {"nodes.tsv": 14, "edges.tsv": 0}
    assert done.notes == (
        "There is no click table in this bundle: the graph has no click edges.",
        "Not in this form: the rows of log. Use --to tsv for them.",
    )
    for to in ("trec", "ir-datasets"):
        done = export(invented, to=to, out=tmp_path / to)
        assert {line.split("\t")[1] for line in lines(done.out / "queries.tsv")} == set(QUERIES)
        assert done.notes == (
            "There is no click table in this bundle: no qrels.txt, no docs.tsv.",
            "Not in this form: the rows of log. Use --to tsv for them.",
        )


def test_a_log_beside_other_tables_adds_nodes_only():
    tables = small_tables()
    rows = {"user": ["invented-1"], "query": ["new"], "url": ["x"], "count": [1]}
    before, after = graph(tables), graph({**tables, "log": pa.table(rows)})
    assert after.edges.equals(before.edges)
    assert set(after.nodes["id"].to_pylist()) == {*before.nodes["id"].to_pylist(), "query:new"}
    assert (before.left_out, after.left_out) == ((), ("log",))


def test_the_click_table_of_the_docs_is_made_of_an_invented_log(invented, monkeypatch):
    monkeypatch.chdir(invented)
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "export.md").read_text(encoding="utf-8")
    (line,) = re.findall(r'duckdb\.sql\("(select [^"]+)"\)', text)
    clicks = {(query, url): n for query, url, n in duckdb.sql(line).fetchall()}
    assert set(clicks) == {(query, page(query)) for query in QUERIES}
    assert sum(clicks.values()) == load(invented).tables["log"].num_rows


# --- the command ----------------------------------------------------------------------------------


def test_the_command_writes_and_says_what(queries_only, tmp_path):
    done = run("export", queries_only, "--to", "trec", "--out", "t", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"to": "trec", "out": "t", "files": {"queries.tsv": 7}}
    assert "There is no click table in this bundle" in done.stderr
    assert "wrote t: queries.tsv (7 rows)" in done.stderr


def test_the_command_gives_the_exit_codes(queries_only, tmp_path):
    wrong = run("export", queries_only, "--to", "xls", "--out", "out", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "usage (2): --to must be one of csv, tsv, trec, hf, ir-datasets, graph" in wrong.stderr
    (tmp_path / "out").mkdir()
    exists = run("export", queries_only, "--to", "tsv", "--out", "out", cwd=tmp_path)
    assert exists.returncode == 2
    assert "usage (2): --out 'out' exists" in exists.stderr
    none = run("export", "out", "--to", "tsv", "--out", "new", cwd=tmp_path)
    assert none.returncode == 6
    assert "bundle (6): 'out' is no bundle" in none.stderr
    assert not (tmp_path / "new").exists()

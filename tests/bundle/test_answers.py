"""A loaded bundle in Python: what it answers."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from murmurlog import load
from murmurlog.bundle.read import Release
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
def bundle(folder):
    release = load(folder / "bundle")
    assert {name: table.num_rows for name, table in release.tables.items()} == {
        "query": 3,
        "click": 3,
        "pair": 2,
    }
    return release


def with_tables(loaded, **tables):
    """The release with other tables: what a bundle of these would be."""
    other = Release(loaded.path, loaded.certificate)
    other.__dict__["tables"] = tables
    return other


def texts(answers):
    return [text for text, _ in answers]


# --- what it answers ------------------------------------------------------------------------------


def test_complete(bundle):
    assert set(texts(bundle.complete("WEA"))) == {"weather", "weather paris"}
    assert texts(bundle.complete("weather ")) == ["weather paris"]
    assert texts(bundle.complete("  ne")) == ["news"]
    assert len(bundle.complete("")) == 3
    assert len(bundle.complete("", 1)) == 1
    counts = dict(bundle.complete("")).values()
    assert all(300 < count < 500 for count in counts)


def test_suggest_says_what_people_asked_next(bundle):
    assert bundle.suggest("Weather ") == [("weather paris", 1.0)]
    assert bundle.suggest("weather paris") == [("news", 1.0)]
    assert bundle.suggest("nobody asked this") == []
    assert bundle.suggest(" ") == []


def test_suggest_falls_back_to_what_is_related(bundle):
    without = with_tables(bundle, click=bundle.tables["click"])
    assert texts(without.suggest("weather")) == ["weather paris"]
    assert without.suggest("weather") == without.related("weather")
    assert without.suggest("news") == []
    only = with_tables(bundle, pair=bundle.tables["pair"])
    assert only.suggest("news") == []


def test_suggest_takes_sessions_where_there_are_any(bundle):
    session = pa.table({"queries": [["weather", "weather paris", "news"]], "users": [400]})
    with_sessions = with_tables(bundle, session=session, pair=bundle.tables["pair"])
    assert dict(with_sessions.suggest("weather")) == {"weather paris": 0.5, "news": 0.5}


def test_search_and_related(bundle):
    assert bundle.search("weather", 1)[0][0] == "w.example"
    assert texts(bundle.related("weather")) == ["weather paris"]
    assert bundle.search("") == bundle.related("\t") == []
    assert all(0 < p <= 1 for _, p in bundle.search("news"))


def test_what_is_asked_for_is_built_once(bundle):
    bundle.search("weather")
    assert bundle._searcher is bundle._searcher


@pytest.mark.parametrize(
    ("method", "needs"),
    [
        ("complete", "a query table"),
        ("suggest", "a pair or click table"),
        ("search", "a click table"),
        ("related", "a click table"),
    ],
)
def test_a_release_without_the_table_says_what_it_has(bundle, method, needs):
    words = with_tables(bundle, keyword=pa.table({"keyword": ["a"], "users": [3]}))
    with pytest.raises(UsageError, match=f"{method} needs {needs}; this release has keyword"):
        getattr(words, method)("a")
    with pytest.raises(UsageError, match="k must be at least 1, not 0"):
        getattr(bundle, method)("a", 0)


def test_a_log_of_invented_users_answers_too(bundle):
    log = pa.table(
        {
            "user": ["1", "2", "2"],
            "query": ["weather", "weather", "news"],
            "url": ["a.example", "a.example", "b.example"],
            "count": [1, 1, 1],
        }
    )
    invented = with_tables(bundle, log=log)
    assert invented.complete("w") == [("weather", 2.0)]
    assert invented.search("news")[0][0] == "b.example"


def test_the_examples_of_the_page_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for code in blocks:
        exec(code, names)
    assert names["release"].complete("we")

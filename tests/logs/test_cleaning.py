"""What is seen to be clean by its bytes is what Python would make of it."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.bundle.canonical import cleaner
from murmurlog.bundle.keys import clean_url
from murmurlog.logs import text_keys
from murmurlog.logs.cleaning import Cleaning, find_plain_urls
from murmurlog.logs.screen import load
from murmurlog.logs.text_keys import TextColumn

PIECES = (
    "a", "b1", "www", "www.", ".", "..", "-", "/", "//", ":80", "@", "?", "#", "?x=1", "A", "é", "%20", "_", "~",
    " ", "\x00", "\x7f", "http://",
)  # fmt: skip
SCHEMES = st.sampled_from(["http://", "https://", "http://www.", "HTTP://", "http:/", "ftp://", ""])
HOSTS = st.sampled_from(
    ["a.b", "a.b1.c", "www.a", "a", "a-b.c", "-a.b", "a.b-", "a..b", ".a.b", "a.b."]
)
URLS = st.builds(
    "{}{}{}".format, SCHEMES, HOSTS, st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
)
QUERIES = st.lists(
    st.sampled_from(
        ["a", "b", " ", "  ", "1", "@", "A", "é", "\t", "\x1f", "~", "zip 12345", "-", "."]
    ),
    max_size=6,
).map("".join)


def column_of(texts):
    """The texts as a column whose bytes do not begin with theirs."""
    return TextColumn.of(pa.array(["before", *texts], pa.large_string())[1:])


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch):
    monkeypatch.setattr(text_keys, "TEXTS_AT_ONCE", 3)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.none() | URLS, max_size=10), st.sampled_from(["host", "path"]))
def test_a_plain_url_is_cut_as_python_cuts_it(texts, level):
    column = column_of(texts)
    plain, first, size = find_plain_urls(
        column.data, column.start, column.length, host_only=level == "host"
    )
    for text, ok, start, length in zip(texts, plain, first, size, strict=True):
        if ok:
            assert bytes(column.data[start : start + length]).decode() == clean_url(text, level)


@pytest.mark.parametrize(
    "following", [".b", "b.c/", ".", "/", "-", "http://a.b", "a..b", "?", "#", "é"]
)
def test_the_bytes_after_a_url_do_not_count(following):
    urls = [
        "http://www.a",
        "http://www.a.b",
        "http://a",
        "http://a.b/c",
        "http://a.b//",
        "https://a.b",
    ]
    for url in urls:
        alone, beside = column_of([url]), column_of([url, following])
        cuts = [
            [
                values[0].item()
                for values in find_plain_urls(c.data, c.start, c.length, host_only=False)
            ]
            for c in (alone, beside)
        ]
        assert cuts[0] == cuts[1]


def test_ordinary_urls_are_plain_and_others_are_not():
    ordinary = ["http://a.b", "https://www.a.b1.c/d/e~f_%20/", "http://a-b.c//", "http://www.a/"]
    odd = [
        "",
        "a.b",
        "http://a",
        "http://A.b",
        "http://a.b?c",
        "http://a.b/c#d",
        "http://a.b:80",
        "http://a..b/",
    ]
    column = column_of([*ordinary, *odd])
    plain, _, _ = find_plain_urls(column.data, column.start, column.length, host_only=False)
    assert plain.tolist() == [True] * len(ordinary) + [False] * len(odd)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.none() | QUERIES, max_size=10), st.booleans())
def test_a_query_that_is_not_suspect_is_clean_and_passes_the_screen(texts, screened):
    cleaning = Cleaning(url=None, screen=load() if screened else None)
    column = column_of(texts)
    suspects = cleaning.suspects(column.data, column.start, column.length)
    clean = cleaner(None)
    for text, suspect in zip(texts, suspects, strict=True):
        if text is not None and not suspect:
            assert clean(text) == text
            assert not cleaning.reasons(text)


def test_most_queries_are_not_suspect():
    column = column_of(["red shoes", "it's 7.5 c++", "A", " a", "a ", "a  b", "", "é"])
    suspects = Cleaning(url=None).suspects(column.data, column.start, column.length)
    assert suspects.tolist() == [False, False, True, True, True, True, True, True]

"""A loaded release at a prompt and in a notebook, and its tables as frames."""

import re
import sys
from importlib.abc import MetaPathFinder

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sample_bundles import HOSTILE, write_bundle, write_small_bundle

from murmurlog import load
from murmurlog.bundle.display import ROWS
from murmurlog.errors import EngineError, UsageError


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_small_bundle(
        tmp_path_factory.mktemp("display") / "bundle", title="<b>Searches</b>"
    )


def test_the_text_is_one_line_with_tables_and_guarantee(bundle):
    release = load(bundle)
    text = repr(release)
    rows = {name: table.num_rows for name, table in release.tables.items()}
    assert "\n" not in text
    assert text == (
        f"Release({str(bundle)!r}, rows: query {rows['query']:,}, click {rows['click']:,}, pair "
        f"{rows['pair']:,}; {release.guarantee})"
    )


def test_a_notebook_shows_the_label_and_the_first_rows_escaped(tmp_path):
    texts = list(HOSTILE[:3]) + ["weather", "news", "maps", "train"]
    bundle = write_bundle(
        tmp_path / "b", {"query": ([texts], [9000 - 900 * i for i in range(7)])}, title="<b>x</b>"
    )
    html = load(bundle)._repr_html_()
    assert "&lt;b&gt;x&lt;/b&gt;: epsilon 1" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "Protected unit" in html
    assert html.count("<tr><td") == ROWS
    used = set(re.findall(r"</?([a-z0-9]+)[ >]", html))
    assert used <= {"p", "div", "h3", "table", "thead", "tbody", "tr", "th", "td", "bdi", "b", "dl",
                    "dt", "dd", "details", "summary"}  # fmt: skip


def test_tables_as_frames(bundle):
    release = load(bundle)
    assert isinstance(release.top(3), pa.Table)
    assert release.top(3) == release.tables["query"].slice(0, 3)
    assert release.top(2, "click") == release.tables["click"].slice(0, 2)
    users = release.top(50)["users"].to_pylist()
    assert users == sorted(users, reverse=True)
    frame = release.to_pandas("click")
    assert isinstance(frame, pd.DataFrame)
    assert frame.url.tolist() == release.tables["click"]["url"].to_pylist()
    assert isinstance(release.to_polars(), pl.DataFrame)
    assert release.to_polars().to_dicts() == release.tables["query"].to_pylist()
    with pytest.raises(UsageError, match="at least 0, not -1"):
        release.top(-1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda release: release.tables["session"],
        lambda release: release.top(3, "session"),
        lambda release: release.to_pandas("session"),
        lambda release: release.to_polars("session"),
        lambda release: release.total("session"),
    ],
)
def test_a_missing_table_is_a_key_error_that_names_those_there_are(bundle, ask):
    with pytest.raises(KeyError) as error:
        ask(load(bundle))
    assert str(error.value) == "there is no table 'session' here: use query, click, pair"
    assert isinstance(error.value, UsageError)


def test_a_missing_package_is_named_with_a_pip_line(bundle, monkeypatch):
    class Missing(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "polars":
                raise ModuleNotFoundError(name)

    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    with pytest.raises(EngineError, match="pip install polars"):
        load(bundle).to_polars()

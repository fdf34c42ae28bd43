"""The notebook of the tutorials runs, and what is stored in it is what its cells show."""

import json
import re
from pathlib import Path

import notebook
import pytest

STORED = Path(__file__).parents[1] / "docs" / "tutorials" / "data-frame.ipynb"


def kinds(outputs):
    """The forms of the outputs of a cell; numbers differ, since noise is drawn anew."""
    return [sorted(output.get("data", ["printed"])) for output in outputs]


def test_every_cell_is_stored_with_its_output_and_no_path_of_a_machine():
    text = STORED.read_text(encoding="utf-8")
    cells = notebook.code_cells(json.loads(text))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    assert not re.search(r"/(home|root|work|tmp)/", text)
    assert "Protected unit" in text


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_is_stored(tmp_path, monkeypatch):
    """Write the outputs again with `python tests/support/notebook.py docs/tutorials/data-frame.ipynb`."""
    monkeypatch.chdir(tmp_path)
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    found = notebook.run(stored)
    cells = notebook.code_cells(stored)
    assert [kinds(outputs) for outputs in found] == [kinds(cell["outputs"]) for cell in cells]
    (checked,) = [o for cell, o in zip(cells, found, strict=True) if "verify" in cell["source"][0]]
    assert checked[0]["data"]["text/plain"] == ["True"]


def test_a_cell_that_fails_is_seen():
    broken = {"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}
    with pytest.raises(ZeroDivisionError):
        notebook.run(broken)

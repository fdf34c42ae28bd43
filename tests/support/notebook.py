"""Runs the cells of a notebook in this process and stores what they show.

    python tests/support/notebook.py docs/tutorials/data-frame.ipynb

Shows what Jupyter shows: what a cell prints, and the value of its last line as text and, where it has
one, as HTML. Needs no Jupyter.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path


def run(notebook):
    """The outputs of each code cell, in order, as a notebook stores them."""
    names, found = {}, []
    for count, cell in enumerate(code_cells(notebook), start=1):
        found.append(_run(ast.parse("".join(cell["source"])), names, count))
    return found


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(tree, names, count):
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if html := getattr(value, "_repr_html_", lambda: None)():
            data = {"text/html": _lines(html), **data}
        outputs.append(
            {
                "data": data,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def _lines(text):
    return text.splitlines(keepends=True)


def store(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = run(notebook)
    for count, (cell, outputs) in enumerate(zip(code_cells(notebook), found, strict=True), 1):
        cell |= {"execution_count": count, "outputs": outputs}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    store(Path(sys.argv[1]).resolve())

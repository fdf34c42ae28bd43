"""Exports a bundle to the formats of other tools. Bundles are public, so an export costs no privacy.

The README of every export states the guarantee. An export is written beside its target and moved there in
one step. Never sees a log.
"""

import csv
import gzip
import json
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from io import TextIOWrapper
from itertools import chain
from os.path import realpath
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from murmurlog.bundle.cards import columns_of, statement
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.files import SUMS, expected_files, metadata, stated_sums, sums
from murmurlog.bundle.graph import graph, rows
from murmurlog.bundle.ids import (
    DOCID_DIGITS,
    QID_DIGITS,
    QUERY_COLUMNS,
    clicks,
    distinct,
    ids,
    relevance,
    texts_of,
)
from murmurlog.bundle.read import Release, load
from murmurlog.bundle.schema import count_of, schema
from murmurlog.bundle.scratch import scratch, settle
from murmurlog.bundle.write import check_target
from murmurlog.errors import BundleError, UsageError

FORMULA = "=+-@\u2212\"'"  # first characters of cells that spreadsheets run, unquote or partly hide
UNSEEN = re.compile(r"\A[\s\u200b-\u200f\u2060\ufeff]+")  # leading spaces and zero-width characters
_CELLS = (
    "A text that begins, after spaces, with = + - @ (also full width), a minus sign, a quotation mark "
    "or an apostrophe has an apostrophe put before it, so that no spreadsheet runs it{condition}. To "
    "undo: take one apostrophe away from the front of every text that has one. A list of texts is "
    "written as JSON."
)
README = {
    "csv": "Comma-separated, UTF-8, a line of names first, lines end with CR LF; a field with a comma, "
    "a quotation mark or a line break is in quotation marks (RFC 4180). An empty field means no value. "
    + _CELLS.format(condition=""),
    "tsv": "Tab-separated, UTF-8, a line of names first, no quoting. "
    + _CELLS.format(condition=" (with the tab as its only separator)"),
    "trec": "queries.tsv: qid, query. docs.tsv: docid, url. qrels.txt: qid, 0, docid, rel. No line "
    "of names. qid: the first 14 hexadecimal digits of the MD5 of the query; docid: the first 12 of "
    "the url's. rel: max(1, floor(log2(count))) of the noisy count, 1 where there are no counts. "
    "It says that people clicked, not that anyone judged. The texts are as published: do not open "
    "them in a spreadsheet.",
    "graph": "nodes.tsv: id, kind (query or url), text, counts. edges.tsv: source, target, kind "
    "(click or reformulation), counts. A count is empty where its table does not give one; nothing "
    "is added up.",
}
SERIES = ("csv", "parquet")  # forms of several releases as one file for each table
README["ir-datasets"] = README["trec"] + (
    " qlogs.jsonl: for each query query_id, query, its noisy count, and items, a list of docid and "
    "noisy count. There are no users, times or ranks in it, and no page texts."
)
README["graph"] += " " + README["tsv"]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The result of an export: the data files with their numbers of rows, and notes for the reader."""

    to: str
    out: Path
    files: Mapping[str, int]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"to": self.to, "out": str(self.out), "files": dict(self.files)}


def export(bundle: str | Path | Sequence[str | Path], *, to: str, out: str | Path) -> Exported:
    """Writes the bundle in a folder in the files of another tool; `out` must not exist.

    Several bundles, as csv or parquet, become one file for each table with a row for each release and
    key (`load_series`).
    """
    bundles = [bundle] if isinstance(bundle, str | Path) else list(bundle)
    if not bundles:
        raise UsageError("an export needs a bundle: name its folder")
    if to not in (*WRITERS, *SERIES):
        formats = ", ".join(dict.fromkeys((*WRITERS, *SERIES)))
        raise UsageError(f"--to must be one of {formats}, not {to!r}")
    if to in SERIES and (len(bundles) > 1 or to not in WRITERS):
        from murmurlog.bundle.series_export import export_series

        return export_series(bundles, to=to, out=Path(out))
    if len(bundles) > 1:
        raise UsageError(
            f"--to {to} is for one bundle, and {len(bundles)} are given: several go to {' or '.join(SERIES)}"
        )
    folder, out = Path(bundles[0]), Path(out)
    check_target(out)
    release = load(folder)
    check_outside(folder, out)
    check_files(release)
    if release.certificate.by and to not in ("csv", "tsv", "hf"):
        raise UsageError(
            f"--to {to} has no place for the column {release.certificate.by.column!r} that this "
            "bundle's tables are split by: use --to csv, --to tsv or --to hf"
        )
    notes = _notes(release.tables, to)
    with new_folder(out) as root:
        files = WRITERS[to](root, release)
        if to != "hf":  # which copies the README and checksums of the bundle
            seal(root, _readme(release.certificate, to, files, notes))
    return Exported(to=to, out=out, files=files, notes=notes)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder that is moved to `out` in one step after the block, unless the block fails."""
    with scratch(out.parent) as place:
        root = place / "export"
        root.mkdir()
        yield root
        check_target(out)
        settle(root, out)


def check_outside(folder: Path, out: Path) -> None:
    """Raises if an export would be written into a bundle."""
    if Path(realpath(folder)) in Path(realpath(out)).parents:
        raise UsageError(f"--out {str(out)!r} is inside the bundle: choose a place beside it")


def escape_cell(text: str) -> str:
    """The text as a cell that no spreadsheet runs; `unescape_cell` is the inverse."""
    begin = unicodedata.normalize("NFKC", UNSEEN.sub("", text)[:1])
    return f"'{text}" if begin and begin[0] in FORMULA else text


def unescape_cell(cell: str) -> str:
    """The text of an escaped cell."""
    return cell.removeprefix("'")


# --- what is exported -----------------------------------------------------------------------------


def check_files(release: Release) -> None:
    """Raises unless the files of a bundle are intact; `verify` checks its claims."""
    root = release.path
    advice = f"See what is wrong: murmurlog verify {root}"
    for path in root.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BundleError(
                f"there is a link in {str(root)!r}, or a pipe; a bundle has none. {advice}"
            )
    actual = sums(root)
    if {*actual, SUMS} != expected_files(release.certificate):
        raise BundleError(f"{str(root)!r} has too many or too few files. {advice}")
    if stated_sums(root) != actual:
        raise BundleError(f"the files do not match {SUMS}. {advice}")
    _ = release.tables  # reading them checks them


def _notes(tables: Mapping[str, pa.Table], to: str) -> tuple[str, ...]:
    """Notes on what an export in this format omits; raises where it would be empty."""
    if to not in ("trec", "ir-datasets", "graph"):
        return ()
    if not texts_of(tables, *QUERY_COLUMNS):
        raise UsageError(
            f"--to {to} needs queries, and this bundle has only: {', '.join(tables)}. "
            "Use --to tsv, or release query or click tables"
        )
    missing = "the graph has no click edges" if to == "graph" else "no qrels.txt, no docs.tsv"
    notes = [] if "click" in tables else [f"There is no click table in this bundle: {missing}."]
    uncounted = [
        name for name, table in tables.items() if count_of(table) is None and name != "log"
    ]
    if uncounted:
        grade = " Every rel is 1." if to != "graph" and "click" in uncounted else ""
        notes.append(f"Published without counts: {', '.join(uncounted)}.{grade}")
    if omitted := sorted(set(tables) & {"session", "itemset", "log"}):
        notes.append(f"Not in this form: the rows of {', '.join(omitted)}. Use --to tsv for them.")
    return tuple(notes)


# --- how it is written ----------------------------------------------------------------------------


def _write_tsv(root: Path, release: Release) -> dict[str, int]:
    return {
        f"{name}.tsv.gz": _table(root / f"{name}.tsv.gz", table)
        for name, table in release.tables.items()
    }


def _write_csv(root: Path, release: Release) -> dict[str, int]:
    return {
        f"{name}.csv": csv_file(root / f"{name}.csv", table)
        for name, table in release.tables.items()
    }


def _write_trec(root: Path, release: Release) -> dict[str, int]:
    tables = release.tables
    qids = ids(distinct(tables, *QUERY_COLUMNS), QID_DIGITS)
    files = {"queries.tsv": _lines(root / "queries.tsv", ((q, text) for text, q in qids.items()))}
    if "click" in tables:
        docids = ids(distinct(tables, "url"), DOCID_DIGITS)
        grades = (
            (f"{qids[query]} 0 {docids[url]} {relevance(n)}",)
            for query, url, n in clicks(tables["click"])
        )
        files["docs.tsv"] = _lines(root / "docs.tsv", ((d, url) for url, d in docids.items()))
        files["qrels.txt"] = _lines(root / "qrels.txt", grades)
    return files


def _write_ir_datasets(root: Path, release: Release) -> dict[str, int]:
    tables = release.tables
    items: dict[str, list[tuple[str, int | None]]] = {}
    if "click" in tables:
        docids = ids(distinct(tables, "url"), DOCID_DIGITS)
        for query, url, n in clicks(tables["click"]):
            items.setdefault(query, []).append((docids[url], n))
    queries = tables.get("query", schema("query").empty_table())
    count = count_of(queries) or "users"
    counts = {row["query"]: row.get(count) for row in rows(queries)}
    logs = (
        {"query_id": qid, "query": query, count: counts.get(query), "items": items.get(query, [])}
        for query, qid in ids(distinct(tables, *QUERY_COLUMNS), QID_DIGITS).items()
    )
    lines = ((json.dumps(log, ensure_ascii=False),) for log in logs)
    return _write_trec(root, release) | {"qlogs.jsonl": _lines(root / "qlogs.jsonl", lines)}


def _write_hf(root: Path, release: Release) -> dict[str, int]:
    """A bundle is what Hugging Face loads: the same files, so that `verify` accepts them too."""
    for name in sorted(expected_files(release.certificate)):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(release.path / name, root / name)
    return {f"data/{name}.parquet": table.num_rows for name, table in release.tables.items()}


def _write_graph(root: Path, release: Release) -> dict[str, int]:
    query_graph = graph(release.tables)
    return {
        "nodes.tsv": _table(root / "nodes.tsv", query_graph.nodes),
        "edges.tsv": _table(root / "edges.tsv", query_graph.edges),
    }


WRITERS: dict[str, Callable[[Path, Release], dict[str, int]]] = {
    "csv": _write_csv,
    "tsv": _write_tsv,
    "trec": _write_trec,
    "hf": _write_hf,
    "ir-datasets": _write_ir_datasets,
    "graph": _write_graph,
}


def _table(path: Path, table: pa.Table) -> int:
    """Writes a line of names and a line for each row; returns how many rows."""
    cells = (map(cell, row.values()) for row in rows(table))
    return _lines(path, chain([map(escape_cell, table.column_names)], cells)) - 1


def csv_file(path: Path, table: pa.Table) -> int:
    """Writes a line of names and a line for each row, as RFC 4180 has them; returns how many rows."""
    with _text(path) as file:
        lines = csv.writer(file, lineterminator="\r\n")
        lines.writerow(map(escape_cell, table.column_names))
        lines.writerows(map(cell, row.values()) for row in rows(table))
    return int(table.num_rows)


def cell(value: str | list[str] | int | float | bool | datetime | None) -> str:
    """A value as an escaped cell of a text file."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)  # begins with a bracket: no formula
    if isinstance(value, str):
        return escape_cell(value)
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return repr(value)


def _lines(path: Path, lines: Iterable[Iterable[str]]) -> int:
    """Writes lines with tabs between their parts; returns the number of lines."""
    n = 0
    with _text(path) as file:
        for line in lines:
            file.write("\t".join(line) + "\n")
            n += 1
    return n


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """A new text file, compressed if its name ends in .gz; the same text gives the same bytes."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        yield stack.enter_context(TextIOWrapper(file, "utf-8", newline="\n"))


# --- what goes with it ----------------------------------------------------------------------------


def _readme(
    certificate: Certificate, to: str, files: Mapping[str, int], notes: Iterable[str]
) -> str:
    """README.txt: the guarantee, the files and their format."""
    g, about = certificate.guarantee, certificate.about
    facts = {
        "Unit": f"{g.unit} ({g.neighbours})",
        "Epsilon": metadata(certificate)["dp.epsilon"],
        "Delta": metadata(certificate)["dp.delta"],
        "Release": f"{certificate.release_id}, {certificate.published}",
        "Publisher": about.get("publisher", "not stated"),
        "License": about.get("license", "not stated"),
    }
    meanings = {
        n: text for t in certificate.tables for n, text in columns_of(certificate, t).items()
    }
    parts = [
        certificate.title,
        wrap(statement(certificate)),
        "\n".join(f"{name}: {value}" for name, value in facts.items()),
        "\n".join(f"{name}: {n} rows" for name, n in files.items()),
        wrap(README[to]),
        "\n".join(f"{name}: {text}" for name, text in meanings.items()),
        *map(wrap, notes),
        wrap(
            f"Made by murmurlog export --to {to}. SHA256SUMS finds accidents; the guarantee can be "
            "checked on the bundle itself (murmurlog verify), not on this copy."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def wrap(text: str) -> str:
    """The text in lines of at most 100 characters."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def seal(root: Path, readme: str) -> None:
    """Adds README.txt and the checksums of all files."""
    (root / "README.txt").write_text(readme, encoding="utf-8")
    lines = [f"{digest}  {name}\n" for name, digest in sums(root).items()]
    (root / SUMS).write_text("".join(lines), encoding="utf-8")

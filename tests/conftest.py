"""Small logs and an engine for all tests."""

import csv
import json

import pytest

from murmurlog.counting.bound import bound
from murmurlog.counting.items import items
from murmurlog.counting.tally import tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import SeededEntropy


@pytest.fixture
def engine():
    with connect() as engine:
        yield engine


@pytest.fixture
def write_tsv(tmp_path):
    """Writes rows of dicts as a .tsv and returns its path."""

    def write(rows, name="log.tsv", columns=("user", "time", "query", "url")):
        path = tmp_path / name
        lines = ["\t".join(columns)]
        lines += ["\t".join(str(row.get(c, "")) for c in columns) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def write_csv(tmp_path):
    def write(rows, name="log.csv"):
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["user", "time", "query", "url"], restval="")
            writer.writeheader()
            writer.writerows(rows)
        return path

    return write


@pytest.fixture
def write_jsonl(tmp_path):
    def write(rows, name="log.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


def bounded_rows(path, *, kind="query", unit="user", per_user=3, way=None, seed=1, columns=None):
    """The bounded set of a log as a set of (unit, key...)."""
    with connect() as engine:
        log = read(find(str(path), columns=columns), engine=engine)
        held = items(log, kind=kind, unit=unit)
        kept = bound(held, per_user=per_user, way=way, entropy=SeededEntropy(seed))
        rows = kept.table.select("unit", *kept.keys).to_pyarrow().to_pylist()
    assert len({tuple(row.values()) for row in rows}) == len(rows)
    return {tuple(row.values()) for row in rows}


def tally_of_log(path, *, kind="query", unit="user", per_user=3, way=None, columns=None):
    """The tally of a log as a dict."""
    with connect() as engine:
        log = read(find(str(path), columns=columns), engine=engine)
        held = items(log, kind=kind, unit=unit)
        counted = tally(bound(held, per_user=per_user, way=way, entropy=SeededEntropy(1)))
        rows = counted.table.to_pyarrow().to_pylist()
    return {tuple(v for k, v in row.items() if k != "users"): row["users"] for row in rows}

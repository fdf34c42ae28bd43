"""Small logs and an engine for all tests."""

import csv
import json
import signal

import pytest

from murmurlog.logs.engines.duckdb import connect

# A shell that starts the tests in the background may ignore Ctrl-C; processes that tests start would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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

"""Mistakes of a new owner, each with its message and exit code; nothing is booked or written.

The table is tests/cli/mistakes.md: every row is typed as it stands there.
"""

import gzip
import io
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import zipfile
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from command import run

PAGE = Path(__file__).parent / "mistakes.md"
ROW = re.compile(r"\| (.+?) \| `(.+?)` \| (\d) \| `(.+)` \|")
MISTAKES = [match.groups() for line in PAGE.read_text().splitlines() if (match := ROW.match(line))]
NAMES = ("user", "time", "query", "url")
BOOKED = {"MURMURLOG_LEDGER": "budget.db", "MURMURLOG_SOURCE": "web"}


def text(records, *, delimiter=",", names=NAMES):
    return "\n".join(delimiter.join(record) for record in (names, *records)) + "\n"


def own_files():
    """The files of an owner who makes these mistakes: name -> content."""
    queries = ("weather", "train times", "müsli", "cheap flights", "news")
    start = datetime(2026, 3, 1)
    moments = [start + timedelta(minutes=97 * n) for n in range(600)]
    rows = [
        (f"u{n % 130}", str(moment), queries[n % 7 % 5], "http://a.example/b")
        for n, moment in enumerate(moments)
    ]
    log = text(rows)
    german = [
        (u, f"{m:%d.%m.%Y %H:%M}", q, a) for (u, _, q, a), m in zip(rows, moments, strict=True)
    ]
    objects = [dict(zip(NAMES, row, strict=True)) for row in rows]
    lines = "\n".join(map(json.dumps, objects))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("april.csv", "may.csv"):
            packed.writestr(name, log)
    return {
        "log.csv": log,
        "log.txt": log,
        "semicolons.csv": text(rows, delimiter=";"),
        "tabs.csv": text(rows, delimiter="\t"),
        "times.csv": text(german),
        "latin.csv": log.encode("latin-1"),
        "german.csv": text(rows, names=("Nutzer", "Zeitpunkt", "Suchanfrage", "Klick")),
        "odd.csv": text(rows, names=("who", "when", "what", "where")),
        "rows.csv": log.partition("\n")[2],
        "twice.csv": text(rows, names=("user", "time", "query", "query")),
        "quotes.csv": log.replace(",news,", ',the "news",'),
        "commas.csv": log.replace(",weather,", ",weather, today,").replace(",news,", ",news, today,"),
        "untimed.csv": text([(user, query) for user, _, query, _ in rows], names=("user", "query")),
        "empty.csv": "",
        "header.csv": ",".join(NAMES) + "\n",
        "log.xlsx": archive.getvalue(),
        "two.zip": archive.getvalue(),
        "cut.csv.gz": gzip.compress(os.urandom(50) + log.encode())[:1500],
        "plain.csv.gz": log,
        "renamed.parquet": log,
        "object.json": json.dumps({"rows": objects}),
        "lines.json": lines,
        "log.jsonl": lines,
        "mixed/april.csv": log,
        "mixed/may.jsonl": lines,
        "differ/april.csv": log,
        "differ/may.csv": text(rows, names=NAMES[::-1]),
        "notes/meeting.txt": "Nothing of this is a log.\n",
        "closed.csv": log,
        "damaged.db": "not a ledger " * 100,
        "syntax.toml": "[release\nepsilon = 1\n",
        "section.toml": "[relase]\nepsilon = 1\n",
        "key.toml": "[release]\nepsilno = 1\n",
        "type.toml": "[release]\nepsilon = true\n",
        "top.toml": "epsilon = 1\n",
        "murmurlog.toml": "[generate]\nseed = 1\n",
    }  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The owner's folder: files, a ledger with a source of which a part is spent, and two bundles."""
    folder = tmp_path_factory.mktemp("place")
    for name, content in own_files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    cap = ("ledger", "cap", "web", "--epsilon", "3", "--delta", "1e-5")
    for command in (cap, ("release", "log.csv", "--out", "january", "--tables", "query")):
        done = run(*command, cwd=folder, env=BOOKED)
        assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "january", folder / "changed")
    with (folder / "changed" / "README.md").open("a") as card:
        card.write(" ")
    (folder / "closed.csv").chmod(0)
    return folder


def content_of(*folders):
    """Every file and folder below, each file with its bytes."""
    modes = {path: path.stat().st_mode for folder in folders for path in folder.rglob("*")}
    return {
        path: path.read_bytes() if path.is_file() and mode & 0o400 else mode
        for path, mode in modes.items()
    }


@pytest.mark.parametrize(
    ("mistake", "command", "code", "message"), MISTAKES, ids=[row[0] for row in MISTAKES]
)
def test_a_mistake_gets_its_message_and_changes_nothing(
    mistake, command, code, message, place, tmp_path, monkeypatch
):
    if "closed.csv" in command and os.geteuid() == 0:
        pytest.skip("root reads every file")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    piped, _, command = command.rpartition("murmurlog ")
    stdin = (place / shlex.split(piped)[1]).read_bytes() if piped else b""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    arguments = shlex.split(command)
    flags = {"--ledger", "--source"} & set(arguments)  # else every release would be booked
    before = content_of(place, tmp_path)
    done = run(*arguments, cwd=place, env={} if flags else BOOKED)
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == int(code), output
    at = 0
    for part in message.split("..."):
        assert part.strip() in output[at:], output
        at = output.index(part.strip(), at) + len(part.strip())
    assert "Traceback" not in output
    assert content_of(place, tmp_path) == before


def test_the_page_lists_at_least_forty_mistakes():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    heads = [
        above for above, line in pairwise(PAGE.read_text().splitlines()) if line.startswith("|--")
    ]
    assert len(MISTAKES) == len(rows) - len(heads) >= 40

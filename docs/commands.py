"""Runs every command of the documents as written, and prints what each gave.

    python docs/commands.py [PAGE ...]

The table has the page, the command, its exit code and the rows it published, table by table. A command fails
if its exit code is not the one that the page states (`<!-- exit 3 -->` before a console block; else 0), or if a
release publishes a table without rows. Lines that only show a form (`SOURCE`, `[flags]`) are not run. A slow
test runs all of it.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.logs.invented.generate import invent, write

ROOT = Path(__file__).parents[1]
ROWS, SEED = 400_000, 1  # of log.parquet, unless a page generates its own
FEW_ROWS = 60_000  # where a page evaluates, which takes minutes on more
SECONDS = 600  # for one command
CONSOLE = re.compile(r"(?:<!-- exit (?P<code>\d+) -->\s*)?```console\n(?P<text>.*?)```", re.DOTALL)
FENCED = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    \S.*\n)+", re.MULTILINE)
INLINE = re.compile(r"`(murmurlog [a-z][^`]*)`")
# What only a form of a command holds: names to be replaced, choices, dots.
FORM = re.compile(r"\[|\]|\.\.|\w\|\w|(?<![\w'\"-])[A-Z][A-Z]*\b(?!\w)")
# Commands that need what a machine may not have, or that do not end; other tests run these.
NOT_RUN = {
    "murmurlog serve": "does not end: tests/web",
    "murmurlog audit": "takes minutes: tests/auditing",
    "murmurlog release 's3:": "needs an object store: tests/logs/test_object_store.py",
    "murmurlog release 'postgresql:": "needs PostgreSQL: tests/logs/test_postgres.py",
    "murmurlog release logs.parquet --engine spark": "needs Spark: tests/logs/engines/test_spark.py",
}
# Sentences that name a command in part, or one that another page shows in full.
MENTIONED = re.compile(r"murmurlog ((init|release) log\.csv|generate (?!.*--out).*)$")
PAGES_NOT_RUN = {
    "docs/explanation/results.md": "takes hours at the sizes it names",
}
# Exit codes that a page explains, at the size of our log.
CODES = {
    # The page says it of a month that was lost, and none was.
    ("docs/how-to/publish-every-month.md", "murmurlog series run series.toml --again"): 3,
}
# What a page takes for granted.
BUNDLE = "murmurlog release log.parquet --epsilon 2 --out bundle"
MONTHS = [f"murmurlog release log.parquet --epsilon 2 --out 2026-0{n}" for n in (1, 2, 3)]
SETUP = {
    "docs/how-to/evaluate.md": [BUNDLE],
    "docs/how-to/export.md": MONTHS,
    "docs/how-to/series.md": MONTHS,
    "docs/reference/report.md": [BUNDLE],
    "docs/reference/tasks.md": [
        BUNDLE,
        "murmurlog generate --like aol --rows 60000 --seed 1 --out log.parquet --labels planted.csv",
    ],
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of a page, and the exit code that the page states."""

    page: str
    text: str
    code: int = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command gave."""

    command: Command
    code: int | None  # None: not run
    rows: dict[str, int] | None = None  # of the bundles that it made
    said: str = ""

    @property
    def failed(self) -> bool:
        empty = self.rows is not None and not all(self.rows.values())
        return self.code is not None and (self.code != self.command.code or empty)


def pages() -> list[Path]:
    """The documents that hold commands to run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> Iterator[Command]:
    """Every command of a page that can be run, in the order of the page; each once."""
    name, text = page.relative_to(ROOT).as_posix(), page.read_text()
    found: dict[int, tuple[str, int]] = {}
    for block in CONSOLE.finditer(text):
        for line in re.finditer(r"^\$ (.+)$", block["text"], re.MULTILINE):
            found[block.start("text") + line.start()] = line[1], int(block["code"] or 0)
    fenced = [block for block in FENCED.finditer(text) if block["kind"] in ("", "sh")]
    unfenced = FENCED.sub(lambda block: " " * len(block[0]), text)
    for blocks in (fenced, INDENTED.finditer(unfenced)):
        for block in blocks:
            joined = block[0].replace("\\\n", "  ")
            for line in re.finditer(r"^ *((?:murmurlog|python -m) [a-z].*)$", joined, re.MULTILINE):
                found.setdefault(block.start() + line.start(), (line[1], 0))
    for line in INLINE.finditer(unfenced):
        found.setdefault(line.start(), (line[1], 0))
    once = dict.fromkeys(found[place] for place in sorted(found))
    for command, code in once:
        if not command.startswith(("murmurlog", "python -m")):
            yield Command(page=name, text=command, code=code)
            continue
        plain = re.sub(r"\s+#.*", "", re.sub(r"\s+", " ", command)).strip()
        if " " not in plain[10:] or FORM.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", plain)):
            continue
        if code == 0 and MENTIONED.fullmatch(plain) and f"$ {command}" not in text:
            continue
        stated = [c for (p, start), c in CODES.items() if p == name and plain.startswith(start)]
        yield Command(page=name, text=plain, code=stated[0] if stated else code)


def prepare(folder: Path, log: Path) -> None:
    """The files that pages name: the log, public files, and what they have by another name."""
    for name in ("log.parquet", "march.parquet"):
        shutil.copy(log, folder / name)
    queries = [f"query {n}" for n in range(1000)]
    (folder / "pool.txt").write_text("\n".join(["weather", "maps", "news", *queries]))
    (folder / "topics.tsv").write_text("weather\tweather\nmaps\ttravel\n")
    (folder / "top-1m.csv").write_text("".join(f"{n},site{n}.com\n" for n in range(1, 2000)))
    (folder / "logs").mkdir()
    for month in ("2026-01", "2026-02", "2026-03"):
        rows = [
            {"user": f"u{n}", "time": f"{month}-05 10:00:00", "query": "news"} for n in range(300)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / "logs" / f"{month}.parquet")
    for shell in (".local/share/bash-completion/completions", ".config/fish/completions"):
        (folder / shell).mkdir(parents=True)
    with gzip.open(folder / "titles.gz", "wt") as titles:
        titles.writelines(f"Title_{n}\n" for n in range(2000))


def run(command: Command, folder: Path) -> Outcome:
    """Runs a command as written; a release without --out after another goes to another folder."""
    for start, why in NOT_RUN.items():
        if command.text.startswith(start):
            return Outcome(command=command, code=None, said=why)
    text = command.text
    if (
        text.startswith("murmurlog release")
        and " --out" not in text
        and (folder / "bundle").exists()
    ):
        text += f" --out bundle{len(list(folder.iterdir()))}"
    before = set(folder.rglob("privacy.json"))
    if text.startswith("murmurlog generate"):
        (folder / text.partition(" --out ")[2].split()[0]).unlink(missing_ok=True)
    paths = {  # commands such as `python -m papers` run in a clone
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    done = subprocess.run(
        text, shell=True, cwd=folder, env=os.environ | paths | {"HOME": str(folder)},
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    made = sorted(set(folder.rglob("privacy.json")) - before)
    rows = {
        table if len(made) == 1 else f"{path.parent.name} {table}": claim["rows"]
        for path in made
        for table, claim in json.loads(path.read_text())["tables"].items()
    }
    return Outcome(
        command=command, code=done.returncode, rows=rows or None, said=done.stdout + done.stderr
    )


def make_logs(folder: Path) -> dict[int, Path]:
    """The logs that pages are run on, by their number of rows."""
    logs = {rows: folder / f"{rows}.parquet" for rows in (ROWS, FEW_ROWS)}
    for rows, path in logs.items():
        write(invent(rows=rows, seed=SEED), path)
    return logs


def run_page(page: Path, logs: Mapping[int, Path]) -> Iterator[Outcome]:
    """Runs the commands of a page, one after the other, in a folder of its own."""
    name = page.relative_to(ROOT).as_posix()
    with tempfile.TemporaryDirectory() as place:
        if name in PAGES_NOT_RUN:
            for command in commands(page):
                yield Outcome(command=command, code=None, said=PAGES_NOT_RUN[name])
            return
        evaluates = any(each.text.split()[1] in ("evaluate", "sweep") for each in commands(page))
        prepare(Path(place), logs[FEW_ROWS if evaluates else ROWS])
        for text in SETUP.get(name, ()):
            outcome = run(Command(page=name, text=text), Path(place))
            if outcome.failed:
                yield outcome
        for command in commands(page):
            yield run(command, Path(place))


def line(outcome: Outcome) -> str:
    """A row of the table."""
    rows = outcome.rows or {}
    published = ", ".join(f"{n:,} {table}" for table, n in rows.items()) or "-"
    code = f"not run: {outcome.said}" if outcome.code is None else str(outcome.code)
    mark = "FAILED" if outcome.failed else "ok"
    return f"| {outcome.command.page} | `{outcome.command.text}` | {code} | {published} | {mark} |"


def main(names: Sequence[str]) -> int:
    chosen = [(ROOT / name).resolve() for name in names] or pages()
    failed = ran = 0
    print("| page | command | exit code | rows published | |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        logs = make_logs(Path(place))
        for page in chosen:
            for outcome in run_page(page, logs):
                print(line(outcome), flush=True)
                ran += outcome.code is not None
                failed += outcome.failed
                if outcome.failed:
                    print(outcome.said, file=sys.stderr)
    print(f"\n{ran} commands run, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

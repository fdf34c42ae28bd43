"""The documentation says what the code does: pages exist, flags are listed, examples run."""

import os
import pkgutil
import re
import shlex
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from page_limits import faults, pages

from murmurlog.bundle.certificate import ABOUT
from murmurlog.cli.main import app
from murmurlog.evaluation.tasks import TASKS
from murmurlog.logs.invented.generate import invent, write
from murmurlog.mechanisms import MECHANISMS, declared_options
from murmurlog.privacy import ASSUMPTIONS
from murmurlog.publishing.ledger import Ledger

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CLI = DOCS / "reference" / "cli"
PAGES = pages()
EXIT = re.compile(r"<!-- exit (\d+) -->\s*```console\n(.*?)```|```console\n(.*?)```", re.DOTALL)


def commands():
    """(name, command) of every command, those of groups included."""
    for name, command in app.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {sub}", inner) for sub, inner in command.commands.items())
        else:
            yield name, command


def test_what_is_derived_from_commands_and_mechanisms_is_current():
    """Write it again with `python docs/options.py`."""
    spec = spec_from_file_location("options", DOCS / "options.py")
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.FLAGS.read_text() == script.flags_page()
    assert script.PAGE.read_text() == script.page()
    assert script.TABLE.read_text() == script.table()


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_the_page_of_flags_has_every_flag(name, command):
    text = section((CLI / "flags.md").read_text(), name)
    flags = {o for p in command.params for o in p.opts + p.secondary_opts if o.startswith("--")}
    if any(getattr(option, "section", "") == "Mechanisms" for option in command.params):
        flags -= {option.flag for option, _ in declared_options().values()}
        assert "../mechanism-options.md" in text
    assert flags <= set(re.findall(r"--[a-z-]+", text))


def section(text, heading):
    """The part of a page below a heading of this name."""
    match = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"there is no section {heading!r}"
    return match[1]


def test_the_first_page_of_the_commands_lists_them_all():
    text = (CLI / "index.md").read_text()
    for name, _ in commands():
        anchor = f"#{name.replace(' ', '-')}" if " " in name else ""
        assert f"[{name}]({name.split()[0]}.md{anchor})" in text


def test_every_flag_in_the_docs_exists():
    known = {o for _, c in commands() for p in c.params for o in p.opts if o.startswith("--")}
    known |= {"--config", "--version", "--help"}
    for page in PAGES:
        for line in page.read_text().splitlines():
            if "murmurlog " in line and "`" not in line.split("murmurlog ")[0][-2:]:
                for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", line.split("murmurlog ", 1)[1]):
                    assert flag in known, f"{page.name}: {flag} in {line!r}"


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_has_its_page(name):
    page, _, anchor = MECHANISMS[name].page().partition("#")
    text = (DOCS / "explanation" / "mechanisms" / page).read_text()
    assert not anchor or f"\n## {anchor}\n" in text
    for word in ("Protects", "Neighbours", "Needs", "Drops", "Guarantee"):
        assert word in text


def test_every_task_has_its_section_and_its_row():
    sections = re.findall(r"^## (.+)$", (DOCS / "reference" / "tasks.md").read_text(), re.MULTILINE)
    rows = re.findall(
        r"^\| \[`(.+)`\]\(\.\./reference/tasks\.md#(.+)\) \|",
        (DOCS / "how-to" / "evaluate.md").read_text(),
        re.MULTILINE,
    )
    names = set(TASKS)
    assert set(sections) == names
    assert set(rows) == {(name, name) for name in names}


def test_every_assumption_is_kept_or_a_gap():
    text = (DOCS / "explanation" / "guarantee.md").read_text()
    rows = "\n".join(line for line in text.splitlines() if line.startswith("| A"))
    for name in ASSUMPTIONS:
        assert name in rows or name in ("A3",) and "A2-A4" in rows
    gaps = (DOCS / "explanation" / "known-gaps.md").read_text()
    for name in ("A0", "A3", "A8", "A9"):
        assert f"({name})" in gaps


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_lines_of_a_page_fit(page):
    assert not list(faults(page))


def test_lines_that_do_not_fit_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("page_limits.ROOT", tmp_path)
    page = tmp_path / "page.md"
    wide = "word " * 25
    page.write_text(f"{wide}\n\n| {wide} |\n\n```\n{wide}\n```\n`{'x' * 130}`\n")
    assert list(faults(page)) == ["page.md:1 has 125 characters"]


def test_the_files_of_the_project_that_pages_name_exist():
    named = re.compile(
        r"`((?:src|tests|audits|benchmarks|docs|papers|tools)/[\w./-]+\.(?:py|md|json|toml|txt))`"
    )
    for page in PAGES:
        for path in named.findall(page.read_text()):
            assert "NAME" in path or (ROOT / path).exists(), f"{page.name} names {path}"


def test_the_python_names_that_pages_name_exist():
    for page in PAGES:
        for name in re.findall(r"`(murmurlog(?:\.[a-zA-Z_]+)+)(?<!\.toml)[`(]", page.read_text()):
            try:
                pkgutil.resolve_name(name)
            except (AttributeError, ImportError):
                pytest.fail(f"{page.name} names {name}")


def test_no_page_names_a_machine():
    for page in PAGES:
        text = page.read_text()
        assert not re.search(r"/(home|root|work|tmp)/\w", text), page.name
        assert all(ord(c) < 0x1F000 for c in text), page.name


def test_what_about_takes_is_in_the_docs():
    text = (CLI / "release.md").read_text()
    for name in ABOUT:
        assert name in text


def blocks(page):
    """(expected exit code, commands) of every console block of a page, in order."""
    for code, failing, plain in EXIT.findall(page.read_text()):
        lines = (failing or plain).splitlines()
        shell = [line[2:] for line in lines if line.startswith("$ ")]
        yield int(code or 0), shell


def environment():
    """This process's, with `murmurlog` and its `python` on the path."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run_page(page, folder):
    """Runs the commands of a page as written; returns how many were murmurlog's."""
    ran = 0
    for expected, shell in blocks(page):
        for command in shell:
            done = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
            ran += shlex.split(command)[0] == "murmurlog"
    return ran


@pytest.mark.slow
def test_the_page_about_budgets_runs_as_written(tmp_path):
    write(invent(rows=500, seed=1), tmp_path / "log.parquet")
    assert run_page(DOCS / "how-to" / "budget.md", tmp_path) == 7
    book = Ledger(tmp_path / "budget.db", must_exist=True)
    assert [change.by_whom for change in book.cap_history()] == 3 * ["Jane Doe"]
    assert book.entries() == []


@pytest.mark.slow
def test_the_page_about_a_series_runs_as_written(tmp_path):
    (tmp_path / "logs").mkdir()
    for month in ("2026-01", "2026-02", "2026-03"):
        lines = [f"u{user}\t{month}-05 10:00:00\tnews" for user in range(300)]
        log = "user\ttime\tquery\n" + "\n".join(lines) + "\n"
        table = pa.csv.read_csv(
            pa.py_buffer(log.encode()), parse_options=pa.csv.ParseOptions(delimiter="\t")
        )
        pq.write_table(table, tmp_path / "logs" / f"{month}.parquet")
    assert run_page(DOCS / "how-to" / "publish-every-month.md", tmp_path) == 3
    entries = Ledger(tmp_path / "budget.db", must_exist=True).entries()
    assert [entry.period for entry in entries] == ["2026-01", "2026-02", "2026-03"]


@pytest.mark.slow
def test_the_tutorial_of_an_own_log_runs_as_written(tmp_path):
    assert run_page(DOCS / "tutorials" / "your-own-log.md", tmp_path) == 5
    (entry,) = Ledger(tmp_path / "murmurlog-ledger.db", must_exist=True).entries()
    assert (entry.source, entry.epsilon, entry.state) == ("log", 1, "committed")


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path):
    assert run_page(DOCS / "tutorials" / "first-release.md", tmp_path) >= 6
    # Whatever was made of the log is booked.
    entries = Ledger(tmp_path / "budget.db", must_exist=True).entries()
    assert [entry.epsilon for entry in entries] == pytest.approx([1, 0.5, 1])


@pytest.mark.slow
def test_the_shell_example_of_the_readme_runs(tmp_path):
    text = section((ROOT / "README.md").read_text(), "Release your own log")
    (code,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    # A target for a small log; and nobody looks at the page.
    for said, instead in (
        ("queries=300 --users 10000", "queries=20 --users 1500"),
        ("murmurlog serve bundle\n", ""),
    ):
        assert said in code
        code = code.replace(said, instead)
    write(invent(rows=60_000, seed=1), tmp_path / "log.parquet")
    done = subprocess.run(
        ["sh", "-e", "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (release,) = Ledger(tmp_path / "budget.db", must_exist=True).entries()
    assert release.state == "committed"


@pytest.mark.slow
def test_the_python_example_of_the_readme_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    setup = "from murmurlog.logs.invented.generate import invent, write; from pathlib import Path\n"
    setup += "write(invent(rows=60_000, seed=1), Path('log.parquet'))\n"
    done = subprocess.run(
        [sys.executable, "-c", setup + code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_public_names_are_sorted_and_there():
    import murmurlog

    assert murmurlog.__all__ == sorted(murmurlog.__all__)
    for name in murmurlog.__all__:
        value = getattr(murmurlog, name)
        assert callable(value), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = murmurlog.nothing

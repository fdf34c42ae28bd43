"""Where code lives: a room imports only from rooms above it, and three walls hold."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "murmurlog"
ROOMS = (
    "errors",
    "privacy",
    "charts",
    "bundle",
    "logs",
    "counting",
    "mechanisms",
    "publishing",
    "evaluation",
    "auditing",
    "web",
    "cli",
)
FORBIDDEN = {  # beyond the order
    "auditing": {"evaluation"},
    "web": set(ROOMS) - {"errors", "privacy", "charts", "bundle", "web"},
}
# Who may draw besides the sampler: generated logs, plans, names of releases,
# and confidence intervals of scores. No published count depends on any of them.
DRAWING = {
    "privacy/sampler",
    "logs/invented/generate",
    "logs/invented/populations",
    "logs/invented/missions",
    "logs/invented/clicks",
    "publishing/planning/stand_in_log",
    "publishing/release",
    "evaluation/scores",
    "evaluation/count_errors",
}
# The classes of engines and partitions: what differs between engines is in them.
ENGINES = {
    "logs/engines/duckdb": "reads on this machine",
    "logs/engines/spark": "a session, and values that workers keep",
    "logs/engines/spark_errors": "what Spark's errors mean",
    "logs/engines/spark_partitions": "partitions on workers",
    "logs/engines/spark_worker": "what workers run",
    "logs/partitions": "partitions in this process",
}
# Modules that read by an engine, at most four; whatever counts is numpy and Arrow.
READING = {
    "logs/duckdb_statements": "single statements: what a file or a sample is like, generated logs",
    "logs/row_typer": "typed rows of a batch, on every engine",
    "logs/spark_rows": "the rows of a source on Spark",
}
# Where the name of an engine decides: it is opened there, and what it cannot make is refused there.
OPENING = {"logs/running"}
# SQL outside of them: of typed rows, of the ledger, of servers, of a file's columns, of `profile` and `generate`.
SQL = {
    "logs/invented/generate",
    "logs/inspection/delimiters",
    "logs/inspection/samples",
    "logs/inspection/times",
    "logs/postgres",
    "logs/source",
    "logs/typed_rows",
    "publishing/ledger",
    "publishing/ledger_file",
    "publishing/ledger_records",
}
PLANNING = "publishing/planning/"
# What runs from a clone only: two packages, and a folder of scripts that import each other by name.
OUTSIDE = {"papers", "tools", "audits", *(path.stem for path in (ROOT / "audits").rglob("*.py"))}


def name(path):
    return str(path.relative_to(SOURCE).with_suffix("")).removesuffix("/__init__")


MODULES = {name(path): path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE}
MODULES["errors"] = SOURCE / "errors.py"


@cache
def imports(module):
    """The modules that a module imports, late imports included, those for type checking not."""
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("murmurlog"):
            package = node.module.replace(".", "/").removeprefix("murmurlog").lstrip("/")
            inside = (f"{package}/{alias.name}".lstrip("/") for alias in node.names)
            found |= {one if one in MODULES or not package else package for one in inside}
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names if alias.name.startswith("murmurlog."))
            found |= {one.replace(".", "/").removeprefix("murmurlog/") for one in names}
    return frozenset(found - {"__version__"})


def room(module):
    return module.partition("/")[0]


def reachable(start):
    seen, todo = set(), {start}
    while todo:
        seen.add(one := todo.pop())
        todo |= imports(one) & MODULES.keys() - seen
    return seen


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_from_rooms_above_it(module):
    here = room(module)
    allowed = set(ROOMS[: ROOMS.index(here) + 1]) - FORBIDDEN.get(here, set())
    for other in imports(module):
        assert room(other) in allowed, f"{module} must not import {other}"


def packages(text):
    """The first names of all absolute imports of a module, late ones and those for types included."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("module", MODULES)
def test_only_engines_and_at_most_four_modules_that_read_import_an_engine(module):
    used = packages(MODULES[module].read_text())
    assert "ibis" not in used
    assert module in {*ENGINES, *READING} or not used & {"duckdb", "pyspark", "py4j"}
    assert len(READING) <= 4
    assert {*ENGINES, *READING, *OPENING, *SQL} <= MODULES.keys()


def test_the_package_imports_nothing_that_runs_from_a_clone_only():
    for path in SOURCE.rglob("*.py"):
        assert not packages(path.read_text()) & OUTSIDE, path


def test_an_import_of_what_runs_from_a_clone_is_seen():
    late = "def run():\n    from papers.tables import tables\n    import tools.pool, twins"
    assert packages(late) & OUTSIDE == {"papers", "tools", "twins"}


def test_every_folder_is_a_room():
    inside = {p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert inside == {*ROOMS, "__init__"}


def test_a_release_never_reaches_the_planning():
    """The noise of a forecast is quick and known."""
    for module in MODULES:
        if room(module) == "mechanisms" or module == "publishing/release":
            assert not [m for m in reachable(module) if m.startswith(PLANNING)], module


def test_only_the_sampler_draws_noise():
    pattern = re.compile(r"urandom|np\.random|default_rng|import (random|secrets|uuid)|from random")
    assert {m for m, path in MODULES.items() if pattern.search(path.read_text())} == DRAWING


def test_nothing_needs_the_network_or_a_fixed_path():
    listening = {"cli/serve", "web/guard"}  # the page answers; it asks nobody
    asking = {"logs/object_store"}  # the address that the owner gave, and no other
    for module, path in MODULES.items():
        text = path.read_text()
        assert not re.search(r"/home/|/root/|/work/", text), module
        client = r"urlopen|OpenerDirector|import requests\b|httpx|pyarrow\.fs|import fs\b"
        assert not re.search(client, text) or module in asking, module
        assert "socket" not in text or module in listening, module


CLASS = re.compile(r"Engine\b|Partitions\b|Shards?\b|Workspace\b|Broadcast\b")
VALUE = re.compile(r"(^|[._])(engine|partitions|parts|shards|bounded|workspace|session)$")
NAMES = {"duckdb", "spark"}


def engine_questions(text):
    """The expressions that ask which engine or which partitions there are."""
    questions = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            tested = [ast.unparse(each) for each in node.args]
            if name.endswith(("isinstance", "issubclass")):
                asks = CLASS.search(tested[-1]) or VALUE.search(tested[0])
            else:
                asks = name in ("hasattr", "getattr", "type") and tested and VALUE.search(tested[0])
        elif isinstance(node, ast.Compare | ast.MatchValue):
            parts = [each for each in ast.walk(node) if isinstance(each, ast.Constant)]
            asks = re.search(r"engine\b", ast.unparse(node)) and NAMES & {
                each.value for each in parts
            }
        else:
            continue
        if asks:
            questions.append(ast.unparse(node))
    return questions


@pytest.mark.parametrize("module", sorted(MODULES.keys() - ENGINES.keys() - OPENING))
def test_nothing_asks_which_engine_or_partitions_there_are(module):
    """What differs between engines is an attribute or a method of theirs."""
    assert engine_questions(MODULES[module].read_text()) == []


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(log.engine, (spark.SparkEngine, str))",
        "isinstance(self.shards, Sequence)",
        "isinstance(rows, LocalPartitions)",
        "hasattr(log.partitions, 'session')",
        "type(bounded)",
        "asked.engine == 'spark'",
        "'spark' in engine.name",
    ],
)
def test_a_question_about_an_engine_is_found(question):
    assert engine_questions(f"if rows and {question}:\n    pass") == [question]
    assert engine_questions("isinstance(log, Log) and source.format == 'duckdb'") == []


def statements(text):
    """The texts of a module, but for docstrings, that are SQL."""
    tree = ast.parse(text)
    docs = [n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)]
    texts = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    words = r"\b(SELECT|DESCRIBE|COPY|GROUP BY|DISTINCT|JOIN|HAVING)\b"
    return [n.value for n in texts if n not in docs and re.search(words, n.value)]


COUNTING = re.compile(
    r"\b(GROUP BY|DISTINCT|HAVING|OVER)\b|\b(count|sum|approx\w*)\(", re.IGNORECASE
)


@pytest.mark.parametrize("module", MODULES)
def test_sql_reads_and_does_not_count(module):
    sql = statements(MODULES[module].read_text())
    if module in {*ENGINES, *READING}:
        assert not any(COUNTING.search(text) for text in sql)
    elif room(module) in ("logs", "counting", "mechanisms", "publishing", "evaluation"):
        assert module in SQL or sql == []


def test_sql_that_counts_is_found():
    text = 'run(f"SELECT user, count(*) FROM {rows} GROUP BY user")'
    assert [bool(COUNTING.search(one)) for one in statements(text)] == [True, True]


def test_the_package_stays_easy_to_find_ones_way_in():
    """Few entries at the top, no long parameter list."""
    entries = [entry for entry in SOURCE.iterdir() if entry.name != "__pycache__"]
    assert len(entries) <= 14
    for module, path in MODULES.items():
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                a = node.args
                named = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
                count = len(set(named) - {"self", "cls"})
                # The reader of logs takes them in one type when the five types of settings are one.
                most = 14 if (module, node.name) == ("logs/log", "read") else 12
                assert count <= most, f"{module}: {node.name} has {count} parameters"

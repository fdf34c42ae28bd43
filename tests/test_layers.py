"""Where things live: a file imports only from lower layers, and two walls hold."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "murmurlog"
LAYERS = [
    {"__init__"},
    {"errors", "decimals", "drawing", "joiners", "measures", "scores", "evidence", "worlds"},
    {
        "charts",
        "columns",
        "records",
        "privacy",
        "scratch",
        "tables",
        "text",
        "graph",
        "screen",
        "cells",
        "printed",
        "fitting",
        "fields",
        "known",
        "observing",
    },
    {
        "names",
        "noise",
        "engine",
        "tasks",
        "shapes",
        "parquet_types",
        "selection",
        "lists",
        "gauges",
        "paper",
        "synth_text",
        "consistent",
        "certificate_schema",
        "spark_worker",
    },
    {"postgres", "spark"},
    {"source", "population", "domain", "histories", "labels"},
    {"raw", "synth", "packing", "measuring", "coded"},
    {"spark_rows", "spark_files", "parts", "firsts"},
    {"log", "ump", "diversity", "pool_text"},
    {"items", "reading"},
    {"bound"},
    {"mining"},
    {"tally", "overview"},
    {"counted", "truth"},
    {"outline", "trials"},
    {"mechanisms", "likeness"},
    {"plans", "certificate", "ledger", "settings"},
    {"forecast", "making"},
    {"wishes"},
    {"cards", "estimates", "place", "table_rules", "wording"},
    {"leaflet"},
    {"bundle"},
    {"road", "checks", "export", "recipes", "probes"},
    {"dataset", "page", "demonstration", "surveying", "reproduce_hong", "evaluation", "auditing"},
    {"running"},
    {"evaluating"},
    {"sweeping", "pictures"},
    {"report"},
    {"reproduce"},
    {"cli"},
]
LAYER = {name: depth for depth, names in enumerate(LAYERS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))


def part(path):
    """The part a file belongs to: its folder below the package, or its own name."""
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@cache
def imports(path):
    """The parts of murmurlog a file imports, late imports included, type checking's not."""
    return tuple(_imports(path))


def _imports(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("murmurlog"):
            if node.module == "murmurlog":
                for alias in node.names:
                    yield alias.name if alias.name in LAYER else "__init__"
            else:
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("murmurlog"):
                    yield (alias.name.split(".") + ["__init__"])[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_from_lower_layers(path):
    here = part(path)
    assert here in LAYER, f"give {here} a layer"
    for other in imports(path):
        assert other == here or LAYER[other] < LAYER[here], f"{here} must not import {other}"


def test_every_layer_has_its_file():
    assert {part(path) for path in MODULES} == set(LAYER)


def reachable(start):
    seen, todo = set(), {start}
    while todo:
        one = todo.pop()
        seen.add(one)
        for path in MODULES:
            if part(path) == one:
                todo |= set(imports(path)) - seen
    return seen


def test_who_reads_bundles_can_never_reach_a_log():
    private = {
        "log",
        "raw",
        "source",
        "postgres",
        "spark",
        "spark_rows",
        "spark_files",
        "shapes",
        "parquet_types",
        "engine",
        "coded",
        "items",
        "counted",
        "tally",
        "truth",
        "synth",
    }
    for reader in ("bundle", "export", "tasks", "page"):
        assert reachable(reader).isdisjoint(private), reader


def test_rehearsals_reach_no_release():
    """Their noise is quick and known: only what plans may import them."""
    planning = {"likeness", "forecast", "wishes"}
    reached = {part(path) for path in MODULES if planning & set(imports(path))}
    assert reached <= planning | {"cli"}
    commands = {
        path.stem for path in MODULES if "cli" in path.parts and planning & set(imports(path))
    }
    assert commands == {"plan", "foresight", "serve"}


def test_only_noise_draws():
    pattern = re.compile(r"urandom|np\.random|default_rng|import (random|secrets|uuid)|from random")
    drawers = {part(p) for p in MODULES if pattern.search(p.read_text())}
    # synth and its parts invent logs, likeness one of a measured outline, forecast rehearses on it,
    # road names the release, probes hold releases against noise of another generator; none of them
    # touches a count that is published.
    assert drawers == {
        "noise",
        "synth",
        "population",
        "likeness",
        "forecast",
        "road",
        "probes",
        "scores",
        "measures",
    }


def test_nothing_needs_the_network_or_a_fixed_path():
    listening = {"serve", "limits"}  # the page answers; it asks nobody
    for path in MODULES:
        text = path.read_text()
        assert not re.search(r"urlopen|requests\.|httpx|/home/|/root/|/work/", text), path.name
        assert "socket" not in text or path.stem in listening, path.name

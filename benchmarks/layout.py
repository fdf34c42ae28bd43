"""How large the project is, how its names read, and how much of the package its main commands execute.

    python benchmarks/layout.py [CHECKOUT ...] [--static]
    python benchmarks/layout.py --shared

For each checkout (default: this one). A line of code is one that is neither blank nor comment nor
docstring. Files, pairs of files, functions and types are those of the package that run between the start
of the command and its end, in all threads; `--static` leaves these out. `--shared` says how many of the
functions that count and select in a default release run in an evaluation, too, and which do not.
"""

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUTSIDE = ("papers", "audits", "tools", "benchmarks", "tests")
OTHER_FILES = (".html", ".js", ".css", ".toml", ".json")
VAGUE = frozenset(
    [
        "found",
        "each",
        "made",
        "given",
        "held",
        "asked",
        "shown",
        "told",
        "kept",
        "listed",
        "said",
        "taken",
        "named",
        "tied",
        "drawn",
        "played",
        "known",
        "one",
        "ones",
        "these",
        "those",
        "this",
        "that",
        "it",
        "its",
        "own",
        "such",
    ]
)
PARTICIPLES = re.compile(r"_?[a-z]+(ed|en|wn)|_?(up|only|made|held|kept|told|said|found|tied)")
VERBS = frozenset(
    [
        "need",
        "feed",
        "seed",
        "speed",
        "embed",
        "proceed",
        "exceed",
        "succeed",
        "open",
        "widen",
        "listen",
        "happen",
    ]
)
RUN = """
import json, sys, threading
home = sys.argv[1]
files, functions, pairs, types = {}, set(), set(), set()
OPTIMIZED = 1  # of functions; not of the bodies of modules and classes, which run at import
def trace(frame, event, arg):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(home) or not code.co_flags & OPTIMIZED:
        return
    function = (code.co_filename, code.co_qualname)
    if function not in functions:
        functions.add(function)
        files[code.co_filename] = files.get(code.co_filename, 0) + 1
    caller = frame.f_back.f_code.co_filename
    if caller.startswith(home) and caller != code.co_filename:
        pairs.add((caller, code.co_filename))
    if code.co_name in ("__init__", "__post_init__"):
        types.add(code.co_qualname.rpartition(".")[0])
def trace_inits(frame, event, arg):
    trace(frame, event, arg)
    if event == "call" and frame.f_code.co_name == "__init__" and "self" in frame.f_locals:
        kind = type(frame.f_locals["self"])
        if kind.__module__.startswith("murmurlog"):
            types.add(kind.__qualname__)
from murmurlog.cli.main import main
sys.argv = ["murmurlog", *sys.argv[2:]]
threading.setprofile(trace_inits)
sys.setprofile(trace_inits)
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
finally:
    sys.setprofile(None)
few = sum(count <= 2 for count in files.values())
with open("counts.json", "w") as file:
    json.dump({"files": len(files), "pairs of files": len(pairs), "functions": len(functions),
               "types made": len(types), "files that run at most two functions": few,
               "modules imported": len(sys.modules)}, file)
with open("functions.json", "w") as file:
    json.dump([[path.removeprefix(home + "/"), name] for path, name in functions], file)
"""
COMMANDS = {
    "release": ("release", "log.parquet", "--out", "bundle"),
    "verify": ("verify", "bundle"),
    "evaluate": ("evaluate", "log.parquet", "--bundle", "bundle", "--tasks", "autocomplete", "--out", "r.html"),
}  # fmt: skip
SHARED = ("counting/", "mechanisms/rounds/")  # what decides the numbers of a table by rounds
EVALUATION = (
    "evaluate", "log.parquet", "--tasks", "autocomplete", "--folds", "1", "--out", "r.html",
    "--baselines", "rounds",
)  # fmt: skip


def code_lines(text: str) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                documentation.update(range(value.lineno, (value.end_lineno or 0) + 1))
    lines: set[int] = set()
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent | {tokenize.ENDMARKER}:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documentation)


def names_of(tree: ast.AST) -> Iterator[str]:
    """Every name that is bound: variables, parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def fan_out(package: Path) -> tuple[int, str]:
    """The most modules of the package that one of its modules imports."""
    counts = {}
    for path in package.rglob("*.py"):
        imported = {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("murmurlog.")
        }
        counts[str(path.relative_to(package))] = len(imported)
    name = max(counts, key=lambda path: counts[path])
    return counts[name], name


def count_source(checkout: Path) -> dict[str, object]:
    """What can be counted in the files."""
    package = checkout / "src" / "murmurlog"
    texts = {path: path.read_text() for path in sorted(package.rglob("*.py"))}
    trees = [ast.parse(text) for text in texts.values()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = Counter(name for tree in trees for name in names_of(tree))
    vague = sum(count for name, count in names.items() if name.strip("_") in VAGUE)
    participles = {
        f.name
        for f in functions
        if PARTICIPLES.fullmatch(f.name) and f.name.strip("_") not in VERBS
    }
    widest, where = fan_out(package)
    found: dict[str, object] = {"wheel: code lines of Python": sum(map(code_lines, texts.values()))}
    for ending in OTHER_FILES:
        lines = [len(path.read_text().splitlines()) for path in package.rglob(f"*{ending}")]
        found[f"wheel: lines of {ending}"] = sum(lines)
    for folder in OUTSIDE:
        files = sorted((checkout / folder).rglob("*.py"))
        found[f"{folder}: code lines"] = sum(code_lines(path.read_text()) for path in files)
    rooms = Counter[str]()
    for path, text in texts.items():
        rooms[path.relative_to(package).parts[0].removesuffix(".py")] += code_lines(text)
    return found | {
        "by room": ", ".join(f"{room} {lines:,}" for room, lines in rooms.most_common()),
        "modules": len(texts),
        "functions": len(functions),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
        "widest fan-out": f"{widest} ({where})",
        "bound names that are pronouns or participles, %": round(100 * vague / names.total(), 1),
        "functions named by a participle": len(participles),
        "catch-all ** parameters": sum(f.args.kwarg is not None for f in functions),
        "words of docs": sum(
            len(path.read_text().split()) for path in (checkout / "docs").rglob("*.md")
        ),
    }


def count_flags(checkout: Path) -> dict[str, object]:
    """Commands and flags, those of mechanisms included, as --help lists them in any version."""
    commands: dict[tuple[str, ...], set[str]] = {}
    groups: list[tuple[str, ...]] = [()]
    for name in groups:
        script = "from murmurlog.cli.main import main; main()"
        text = run(checkout, ["-c", script, *name, "--help"], Path.cwd())
        if "--help-all" in text:
            text = run(checkout, ["-c", script, *name, "--help-all"], Path.cwd())
        members = text.partition("\nCommands:\n")[2]
        if members:
            groups += [(*name, part) for part in re.findall(r"^  ([a-z]\S*)", members, re.M)]
        else:
            options = text.partition("\nExamples:\n")[0]
            commands[name] = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", options))
    return {
        "commands": len(commands),
        "flags, `--help` and those of mechanisms included": len(
            {flag for flags in commands.values() for flag in flags}
        ),
        "flags of release": len(commands["release",]),
    }


def write_log(checkout: Path, folder: Path) -> None:
    """Generates the log that the commands read."""
    generate = "from murmurlog.cli.main import main; main()"
    words = ["generate", "--rows", "20000", "--seed", "1", "--out", "log.parquet"]
    run(checkout, ["-c", generate, *words], folder)


def count_runs(checkout: Path) -> dict[str, object]:
    """What a default release, a check of its bundle and an evaluation of it execute."""
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(checkout, folder)
        for command, words in COMMANDS.items():
            run(checkout, ["-c", RUN, str(checkout / "src" / "murmurlog"), *words], folder)
            counts = json.loads((folder / "counts.json").read_text())
            found |= {f"{command}: {what}": count for what, count in counts.items()}
    return found


def share_functions(checkout: Path) -> tuple[set[str], set[str]]:
    """The functions that count and select in a default release, and those of an evaluation of `rounds`."""
    functions = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(checkout, folder)
        for words in (COMMANDS["release"], EVALUATION):
            run(checkout, ["-c", RUN, str(checkout / "src" / "murmurlog"), *words], folder)
            pairs = json.loads((folder / "functions.json").read_text())
            functions.append({f"{path} {name}" for path, name in pairs if path.startswith(SHARED)})
    release, evaluation = functions
    return release, evaluation


def run(checkout: Path, arguments: list[str], folder: Path) -> str:
    """The standard output of Python with the checkout's package."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "MURMURLOG_PROGRESS": "none"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--shared", action="store_true")
    options = parser.parse_args()
    if options.shared:
        release, evaluation = share_functions(options.checkouts[0].resolve())
        missing = sorted(release - evaluation)
        share = 100 * (1 - len(missing) / len(release))
        print(f"{share:.1f} % of {len(release)} functions", *missing, sep="\n")
        return
    columns = []
    for checkout in (path.resolve() for path in options.checkouts):
        column = count_source(checkout) | count_flags(checkout)
        columns.append(column if options.static else column | count_runs(checkout))
    for what in columns[-1]:
        print(f"{what:55}", *(f"{column.get(what, '')!s:>12}" for column in columns))


if __name__ == "__main__":
    main()

"""How large the package is, and how much of it a release and a check execute.

    python benchmarks/layout.py [CHECKOUT ...]

For each checkout (default: this one): entries at the top of the package, modules, lines, the largest
module, the longest parameter list; the files of the package that a default release and a `verify` of
its bundle execute, and the modules that `verify` imports, of all packages.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = """
import json, os, sys
home = os.environ["HOME_OF_PACKAGE"]
seen = set()
OPTIMIZED = 1  # of functions; not of the bodies of modules and classes, which run at import
def trace(frame, event, arg):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(home) and frame.f_code.co_flags & OPTIMIZED:
        seen.add(name)
    return None
import murmurlog
murmurlog.{function}
sys.setprofile(trace)
murmurlog.{function}({arguments})
sys.setprofile(None)
print(json.dumps([len(seen), len(sys.modules), sum(m.startswith("murmurlog") for m in sys.modules)]))
"""
ARGUMENTS = {"release": '"log.parquet", out="bundle"', "verify": '"bundle"'}


def size(package: Path) -> dict[str, int]:
    """What can be counted in the source."""
    modules = sorted(package.rglob("*.py"))
    lines = [len(module.read_text().splitlines()) for module in modules]
    longest = 0
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.FunctionDef):
                a = node.args
                names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
                longest = max(longest, len([n for n in names if n not in ("self", "cls")]))
    entries = [e for e in package.iterdir() if e.name != "__pycache__"]
    return {
        "entries at the top": len(entries),
        "modules": len(modules),
        "lines": sum(lines),
        "lines of the largest module": max(lines),
        "longest parameter list": longest,
    }


def executed(source: Path, function: str, folder: Path) -> list[int]:
    """Files of the package whose functions ran, modules loaded, and modules of the package loaded."""
    home = str((source / "murmurlog").resolve())
    environment = os.environ | {"PYTHONPATH": str(source.resolve()), "HOME_OF_PACKAGE": home}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(function=function, arguments=ARGUMENTS[function])], cwd=folder, env=environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(checkout: Path) -> dict[str, int]:
    """All figures of one checkout."""
    source = checkout / "src"
    figures = size(source / "murmurlog")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-c", "from murmurlog.cli.main import main; main()"]
        generate = ["generate", "--rows", "20000", "--seed", "1", "--out", "log.parquet"]
        environment = os.environ | {"PYTHONPATH": str(source.resolve())}
        subprocess.run(
            [*command, *generate], cwd=folder, env=environment, check=True, capture_output=True
        )
        files, _, _ = executed(source, "release", folder)
        figures["files executed by a default release"] = files
        files, every, own = executed(source, "verify", folder)
        figures["files executed by verify"] = files
        figures["modules imported by verify"] = every
        figures["modules of murmurlog imported by verify"] = own
    return figures


def main() -> None:
    checkouts = [Path(text) for text in sys.argv[1:]] or [ROOT]
    measured = [measure(checkout) for checkout in checkouts]
    for name in measured[0]:
        print(f"{name:45}", *(f"{figures[name]:>8,}" for figures in measured))


if __name__ == "__main__":
    main()

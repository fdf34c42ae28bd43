"""What checks a bundle loads nothing that reads a log: no engine, no reader, no counting of one."""

import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("bundle-*"))
ENGINES = ("duckdb", "pyspark", "py4j")
FUNCTION = "import murmurlog, sys; assert murmurlog.verify(sys.argv[1]).ok; print(*sys.modules)"
COMMAND = """
import sys
from murmurlog.cli.app import app
import murmurlog.cli.main
try:
    app(["verify", sys.argv[1]])
except SystemExit as stop:
    assert not stop.code
print(*sys.modules)
"""


@pytest.mark.parametrize("code", [FUNCTION, COMMAND], ids=["function", "command"])
def test_verify_loads_nothing_that_reads_a_log(code):
    done = subprocess.run(
        [sys.executable, "-c", code, str(GOLDEN[-1])], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "murmurlog.auditing.verify" in loaded
    assert not [module for module in loaded if module.split(".")[0] in ENGINES]
    # The declared options and the types of sources are imported by every command; they read nothing.
    light = ("options", "running", "encodings", "times", "delimiters", "inputs", "addresses")
    assert {m for m in loaded if m.startswith("murmurlog.logs.")} <= {
        f"murmurlog.logs.{name}" for name in light
    }
    public = {"murmurlog.counting.public_sets"}  # sets of keys that are fixed without a log
    read = {m for m in loaded if m.startswith("murmurlog.counting.")} - public
    assert all(m.startswith("murmurlog.counting.public_sets.") for m in read)

"""Logs, scratch and bundles on other file systems, by Hadoop's own clients."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import cluster
import pytest
from cluster import PATIENCE, environment, needs_spark

from murmurlog.auditing.verify import verify
from murmurlog.publishing.ledger import Ledger

pytestmark = needs_spark
RELEASES = """
import json, sys
from pathlib import Path
from webhdfs import WebHdfs
from murmurlog.errors import MurmurlogError
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.release import release
from murmurlog.logs.invented.generate import invent, write

folder = Path(sys.argv[1])
for name in ("logs", "out", "scratch"):
    (folder / "store" / name).mkdir(parents=True)
write(invent(rows=3000, seed=1), folder / "store" / "logs" / "a.parquet")
server = WebHdfs(folder / "store")
Ledger(folder / "ledger").cap("log", epsilon=20, delta=1e-3)
asked = {"engine": "spark", "master": "local[2]", "tables": ["query"], "epsilon": 8, "delta": 1e-4,
         "ledger": folder / "ledger", "source_name": "log"}
log = f"{server.url}/logs"
made = release(log, out=f"{server.url}/out/bundle", scratch=f"{server.url}/scratch", **asked)
told = [made.as_json()["out"]]
try:
    release(log, out=f"{server.url}/out/bundle", **asked)
except MurmurlogError as error:
    told.append(str(error))
told.append([entry.state for entry in Ledger(folder / "ledger").entries("log")])
server.broken = lambda operation, path: operation == "CREATE" and path.endswith("SHA256SUMS")
try:
    release(log, out=f"{server.url}/out/other", **asked)
except MurmurlogError as error:
    told.append(str(error))
print(json.dumps(told))
"""


def run(arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.skipif(find_spec("pyftpdlib") is None, reason="no pyftpdlib on this machine")
def test_bundles_land_whole_or_not_at_all(tmp_path):
    done = run([str(Path(cluster.__file__).with_name("landings.py")), str(tmp_path)])
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "all landed"


def test_a_release_from_to_and_by_way_of_webhdfs(tmp_path):
    done = run(["-c", RELEASES, str(tmp_path)])
    assert done.returncode == 0, done.stderr[-3000:]
    out, refused, booked, failed = json.loads(done.stdout.splitlines()[-1])
    assert out.startswith("webhdfs://127.0.0.1:")
    assert "exists: choose another folder" in refused
    assert booked == ["committed"]  # what was refused was not
    assert "told to fail" in failed
    assert "its budget stays booked" in failed
    states = [entry.state for entry in Ledger(tmp_path / "ledger").entries("log")]
    assert states == ["committed", "reserved"]
    store = tmp_path / "store"
    assert [path.name for path in (store / "out").iterdir()] == ["bundle"]
    assert list((store / "scratch").iterdir()) == []
    assert verify(store / "out" / "bundle").exit_code == 0

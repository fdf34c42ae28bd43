"""A log and a scratch folder on a file system that only Spark reaches, by Hadoop's own client."""

import subprocess
import sys

from cluster import TIMEOUT, environment, needs_spark

from murmurlog.auditing.verify import verify

pytestmark = needs_spark
RELEASE = """
import sys
from pathlib import Path
from webhdfs import WebHdfs
from murmurlog.publishing.release import release
from murmurlog.logs.invented.generate import invent, write

folder = Path(sys.argv[1])
for name in ("logs", "scratch"):
    (folder / "store" / name).mkdir(parents=True)
write(invent(rows=3000, seed=1), folder / "store" / "logs" / "a.parquet")
server = WebHdfs(folder / "store")
release(f"{server.url}/logs", out=folder / "bundle", scratch=f"{server.url}/scratch", engine="spark",
        master="local[2]", tables=["query"], epsilon=8, delta=1e-4)
"""


def test_a_release_from_and_by_way_of_webhdfs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RELEASE, str(tmp_path)],
        env=environment(), capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert list((tmp_path / "store" / "scratch").iterdir()) == []
    assert verify(tmp_path / "bundle").exit_code == 0

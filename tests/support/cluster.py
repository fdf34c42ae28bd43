"""A Spark cluster on loopback: a standalone master and two workers, started and killed at will."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

CONF = {
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.memory": "800m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
MISSING = [name for name, there in (("pyspark", find_spec("pyspark")), ("java", shutil.which("java"))) if not there]  # fmt: skip
needs_spark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} on this machine"),
]
TIMEOUT = 900  # seconds; a cluster on two busy cores is slow


def environment(**more):
    """The environment of a process that uses the cluster."""
    conf = " ".join(f"--conf {name}={value}" for name, value in CONF.items())
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **more,
    }


class Cluster:
    """A standalone master and two workers on loopback, each a process group of its own."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self.master = self._start(
            "master", "org.apache.spark.deploy.master.Master", "-p", str(port)
        )
        self._await("master", "I have been elected leader")
        self.workers = [self._worker(i) for i in range(2)]
        for i in range(2):
            self._await(f"worker{i}", "Successfully registered with master")

    def _worker(self, i):
        return self._start(
            f"worker{i}", "org.apache.spark.deploy.worker.Worker", self.url,
            *("-c", "1", "-m", "1g", "-d", str(self.folder / f"work{i}")),
        )  # fmt: skip

    def _start(self, name, main, *arguments):
        spark = Path(find_spec("pyspark").origin).parent / "bin" / "spark-class"
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(spark), main, "-h", "127.0.0.1", "--webui-port", "0", *arguments],
                env=environment(SPARK_DAEMON_MEMORY="256m"),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _await(self, name, words):
        end = time.monotonic() + TIMEOUT
        while words not in (self.folder / f"{name}.log").read_text(errors="replace"):
            assert time.monotonic() < end, f"{name} did not start"
            time.sleep(0.2)

    def kill(self, i):
        """A worker and its executors die at once."""
        os.killpg(self.workers[i].pid, signal.SIGKILL)
        self.workers[i].wait()

    def replace(self, i):
        """A new worker in the place of a killed one."""
        self.workers[i] = self._worker(i)

    def executors(self, i):
        """The logs of the executors that a worker has started."""
        return list((self.folder / f"work{i}").glob("app-*/*/stderr"))

    def stop(self):
        for process in (*self.workers, self.master):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

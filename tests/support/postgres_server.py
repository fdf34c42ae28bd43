"""A PostgreSQL server for tests and benchmarks: found or installed, started, stopped, wiped.

It runs in a folder of its own, as a user without rights (it refuses root), on the loopback address
and on a file in its folder. Connections by address need a password.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

PASSWORD = "correct horse: battery/staple@?#%"
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


class NoServer(Exception):
    """There is none and none could be installed; the words say why."""


def find_binaries():
    """The folder with `postgres` and `initdb`, the newest if there are several; None without."""
    found = [
        path.parent for place in PLACES for path in Path("/").glob(f"{place.lstrip('/')}/postgres")
    ]
    if on_path := shutil.which("postgres"):
        found.append(Path(on_path).resolve().parent)
    return max(
        (folder for folder in found if (folder / "initdb").exists()),
        key=lambda folder: [int(n) for n in "".join(_digits(folder)).split()],
        default=None,
    )


def _digits(folder):
    return (c if c.isdigit() else " " for c in str(folder))


def install():
    """Debian's postgresql, without the cluster it would set up and start for everybody."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NoServer("no PostgreSQL server here, and only root can install one with apt-get")
    settings = Path("/etc/postgresql-common/createcluster.conf")
    if not settings.exists():
        settings.parent.mkdir(exist_ok=True)
        settings.write_text("create_main_cluster = false\nstart_conf = 'manual'\n")
    wait = ("-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update",), ("install", "-y", "--no-install-recommends", "postgresql")):
        done = subprocess.run(
            ["apt-get", "-q", *wait, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no words"])[-1]
        raise NoServer(f"apt-get could not install postgresql: {said}")


@contextmanager
def run_server():
    """A started server with an empty database `web`; gone at the end."""
    if find_binaries() is None:
        install()
    if find_binaries() is None:
        raise NoServer("no PostgreSQL server, even after apt-get installed postgresql")
    folder = Path(tempfile.mkdtemp(prefix="murmurlog-pg-"))
    server = Server(folder)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


class Server:
    """A server in a folder. Its superuser is called owner."""

    def __init__(self, folder):
        self.folder = folder
        self.binaries = find_binaries()
        self.process = None
        self.port = _free_port()
        self.as_user = {}
        if os.geteuid() == 0:
            names = [entry.pw_name for entry in pwd.getpwall()]
            user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)

    def url(self, database="web", *, user="owner", password=PASSWORD):
        """Its address, with a password unless that is None."""
        secret = "" if password is None else ":" + quote(password, safe="")
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    @property
    def local(self):
        """Its address by way of the file in its folder; no password is asked."""
        return f"postgresql://owner@/web?host={quote(str(self.folder), safe='')}&port={self.port}"

    def make(self):
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)  # the folder is private
        self._run(
            *("initdb", "-D", "data", "-U", "owner", "--pwfile", "password", "-E", "UTF8"),
            *("--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync"),
        )

    def start(self):
        from adbc_driver_postgresql import dbapi

        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.binaries / "postgres", "-D", "data", "-k", self.folder),
                    *("-h", "127.0.0.1", "-p", str(self.port), "-c", "fsync=off"),
                    *("-c", "max_wal_size=4GB", "-c", "autovacuum=off"),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self.as_user,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1", database="postgres")
                break
            except dbapi.Error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.1)
        if not self.execute("SELECT 1 FROM pg_database WHERE datname = 'web'", database="postgres"):
            self.execute("CREATE DATABASE web", database="postgres")

    def stop(self, how=signal.SIGINT):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=60)

    def execute(self, *statements, database="web"):
        """Runs statements as the superuser; the rows of the last one."""
        from adbc_driver_postgresql import dbapi

        with (
            dbapi.connect(self.url(database), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def load(self, table, rows):
        """Copies an Arrow table into a new table of the database."""
        from adbc_driver_postgresql import dbapi

        with (
            dbapi.connect(self.url(), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.adbc_ingest(table, rows, mode="create")

    def _run(self, program, *arguments):
        done = subprocess.run(
            [self.binaries / program, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            **self.as_user,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.strip()}")


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

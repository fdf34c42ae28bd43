"""A release from an object store: a folder as the store, and a live S3 server; nothing is written to one."""

import os
import subprocess
import sys

import pytest
import store_server
from pyarrow import fs

from murmurlog import load, release
from murmurlog.auditing.verify import verify
from murmurlog.errors import UsageError
from murmurlog.logs import object_store
from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.ledger import Ledger

BUDGET = {"epsilon": 8.0, "delta": 1e-4}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder that is served as a store: addresses s3://bucket/... are files of it."""
    (tmp_path / "store" / "bucket" / "logs").mkdir(parents=True)
    write(invent(rows=3000, seed=1), tmp_path / "store" / "bucket" / "logs" / "a.parquet")
    files = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())
    monkeypatch.setattr(object_store, "_file_system", lambda *_: files)
    return tmp_path / "store"


def test_a_release_from_a_store_is_that_of_the_files(store, tmp_path):
    release("s3://bucket/logs", out=tmp_path / "a", entropy=SeededEntropy(1), **BUDGET)
    release(store / "bucket/logs", out=tmp_path / "b", entropy=SeededEntropy(1), **BUDGET)
    assert dict(load(tmp_path / "a").tables) == dict(load(tmp_path / "b").tables)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://bucket/out/b", "s3://bucket/out/b"),
        ("gs://bucket/b", "gs://bucket/b"),
        ("hdfs://host/b", "hdfs://host/b"),
        ("file:///folder/b", "file:///folder/b"),
        ("https://host/b?sig=secret", "https://host/b?***"),
        ("s3://key:secret@bucket/b", "s3://***@bucket/b"),
    ],
)
def test_an_address_as_target_is_refused_with_what_to_do_before_anything_is_booked(
    address, shown, store, tmp_path
):
    ledger = {"ledger": tmp_path / "ledger", "source_name": "web", "new_source": True}
    with pytest.raises(UsageError) as told:
        release("s3://bucket/logs", out=address, **ledger, **BUDGET)
    assert f"--out {shown!r} is an address" in str(told.value)
    assert "copy the finished bundle" in str(told.value)
    assert not (tmp_path / "ledger").exists()


# --- a live server --------------------------------------------------------------------------------

LIVE = pytest.mark.skipif(
    store_server.find_program() is None, reason="moto's server is not installed: make test-all"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("s3")
    found = store_server.S3(folder)
    write(invent(rows=3000, seed=1), folder / "a.parquet")
    write(invent(rows=3000, seed=2), folder / "b.parquet")
    for name in ("a.parquet", "b.parquet"):
        found.put(f"logs/{name}", (folder / name).read_bytes())
    found.local = folder
    yield found
    found.stop()


COMMAND = "from murmurlog.cli.main import main; main()"


def run(server, *arguments, url=None, command=COMMAND, **environment):
    """murmurlog as a command: (exit code, what it said); it must end within five minutes."""
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        env=os.environ | server.environment(url) | environment,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    said = done.stdout + done.stderr
    for secret in (
        server.key,
        server.secret,
        environment.get("AWS_SECRET_ACCESS_KEY", server.secret),
    ):
        assert secret not in said
    assert "Traceback" not in said
    return done.returncode, said


def publish(server, folder, **more):
    ledger = ("--ledger", str(folder / "ledger"), "--source", "web", "--new-source")
    return run(
        server, "release", "s3://bucket/logs/*.parquet", "--out", str(folder / "out"), "--epsilon", "8",
        "--delta", "1e-4", *ledger, **more,
    )  # fmt: skip


def states(folder):
    return [entry.state for entry in Ledger(folder / "ledger").entries()]


@pytest.mark.slow
@LIVE
class TestLive:
    def test_a_release_from_s3_verifies_and_holds_no_credentials(self, server, tmp_path):
        code, said = publish(server, tmp_path)
        assert code == 0, said
        bundle = tmp_path / "out"
        assert verify(bundle, ledger=tmp_path / "ledger").exit_code == 0
        assert states(tmp_path) == ["committed"]
        stored = [*(file.read_bytes() for file in bundle.rglob("*") if file.is_file())]
        stored.append((tmp_path / "ledger").read_bytes())
        for secret in (server.key, server.secret, "127.0.0.1", "s3://"):
            assert not any(secret.encode() in data for data in stored)

    def test_profile_reads_the_same_rows_as_from_files(self, server):
        code, remote = run(server, "profile", "s3://bucket/logs", "--json")
        here, local = run(server, "profile", f"{server.local}/*.parquet", "--json")
        assert (code, here) == (0, 0)
        assert remote[: remote.rindex("}")] == local[: local.rindex("}")]

    def test_wrong_credentials(self, server, tmp_path):
        code, said = publish(server, tmp_path, AWS_SECRET_ACCESS_KEY="wrong-secret-value")
        assert code == 4
        assert "access denied: check the credentials" in said
        assert states(tmp_path) == []

    def test_a_bucket_that_is_not_there(self, server):
        code, said = run(server, "profile", "s3://other-bucket/logs")
        assert code == 4
        assert "s3://other-bucket/logs could not be read: there is no such object" in said

    def test_an_object_that_vanishes_between_list_and_read(self, server, tmp_path):
        key = "logs/c.parquet"
        server.put(key, b"x")

        def vanish(method, path):
            if path.startswith(f"/bucket/{key}"):
                server.remove(key)

        with store_server.run_proxy(server, vanish) as proxy:
            code, said = publish(server, tmp_path, url=proxy.url)
        assert code == 4
        assert "s3://bucket/logs/c.parquet could not be read: it was listed, and is gone" in said
        assert states(tmp_path) == []

    def test_a_slow_network_is_waited_for(self, server, tmp_path):
        with store_server.run_proxy(server, lambda method, path: 100_000) as proxy:
            code, said = publish(server, tmp_path, url=proxy.url)
        assert code == 0, said
        assert verify(tmp_path / "out").exit_code == 0

    def test_a_network_that_stalls_is_given_up(self, server, tmp_path):
        def stall(method, path):
            return "stall" if method == "GET" and path.startswith("/bucket/logs/b") else None

        with store_server.run_proxy(server, stall) as proxy:
            code, said = publish(server, tmp_path, url=proxy.url)
        assert code == 4
        assert "s3://bucket/logs/b.parquet could not be read: no " in said
        assert states(tmp_path) == []

    def test_a_network_that_trickles_is_given_up_and_the_command_ends(self, server, tmp_path):
        soon = "import murmurlog.logs.object_store as store; store.PATIENCE = 3.0; " + COMMAND
        with store_server.run_proxy(server, lambda method, path: 500) as proxy:
            code, said = run(
                server, "profile", "s3://bucket/logs/b.parquet", url=proxy.url, command=soon
            )
        assert code == 4
        assert "s3://bucket/logs/b.parquet could not be read: no answer within 3 seconds" in said

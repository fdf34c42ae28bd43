"""Logs and bundles in an object store: with a folder as the store, and with a live S3 server."""

import os
import subprocess
import sys

import pytest
import store_server
from pyarrow import fs

from murmurlog import load, release
from murmurlog.auditing.verify import verify
from murmurlog.bundle.files import SUMS
from murmurlog.errors import DiskError, EngineError, UsageError
from murmurlog.logs import object_store
from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.ledger import Ledger

BUDGET = {"epsilon": 8.0, "delta": 1e-4}


class Folder(fs.FileSystemHandler):
    """A folder as a store: folders come with their objects, and a step can fail."""

    def __init__(self, root):
        self.root, self.broken, self.written = root, lambda step, key: False, []
        self.files = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())

    def get_type_name(self):
        return "folder"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self.files.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self.files.get_file_info(selector)

    def open_input_stream(self, path):
        return self.files.open_input_stream(path)

    def open_output_stream(self, path, metadata):
        if self.broken("write", path):
            raise OSError("AWS Error NETWORK_CONNECTION: told to fail, secret")
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        self.written.append(path)
        return self.files.open_output_stream(path)

    def delete_file(self, path):
        if self.broken("delete", path):
            raise OSError("AWS Error ACCESS_DENIED: secret")
        self.files.delete_file(path)

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = move = None
    copy_file = open_input_file = open_append_stream = None


@pytest.fixture
def store(tmp_path, monkeypatch):
    root = tmp_path / "store"
    (root / "bucket" / "logs").mkdir(parents=True)
    write(invent(rows=3000, seed=1), root / "bucket" / "logs" / "a.parquet")
    handler = Folder(root)
    monkeypatch.setattr(object_store, "_file_system", lambda *_: fs.PyFileSystem(handler))
    return handler


def files_below(root):
    return sorted(str(f.relative_to(root)) for f in root.rglob("*") if f.is_file())


def test_a_release_from_a_store_to_a_store(store, tmp_path):
    made = release("s3://bucket/logs", out="s3://bucket/out/b", entropy=SeededEntropy(1), **BUDGET)
    assert made.as_json()["out"] == "s3://bucket/out/b"
    release(store.root / "bucket/logs", out=tmp_path / "b", entropy=SeededEntropy(1), **BUDGET)
    assert dict(load(store.root / "bucket/out/b").tables) == dict(load(tmp_path / "b").tables)
    assert files_below(store.root / "bucket/out/b") == files_below(tmp_path / "b")
    assert files_below(store.root / "bucket/out") == [f"b/{n}" for n in files_below(tmp_path / "b")]
    assert store.written[-1] == f"bucket/out/b/{SUMS}"


def booked(tmp_path, out, **more):
    return release(
        "s3://bucket/logs",
        out=out,
        ledger=tmp_path / "ledger",
        source_name="web",
        new_source=True,
        **BUDGET,
        **more,
    )


@pytest.mark.parametrize("taken", ["out/b", "out/b/x"])
def test_a_name_that_is_taken_is_refused_before_anything_is_booked(taken, store, tmp_path):
    (store.root / "bucket" / taken).parent.mkdir(parents=True)
    (store.root / "bucket" / taken).write_text("mine")
    with pytest.raises(UsageError, match="--out 's3://bucket/out/b' exists"):
        booked(tmp_path, "s3://bucket/out/b")
    assert Ledger(tmp_path / "ledger").entries() == []
    assert store.written == []


@pytest.mark.parametrize("step", ["write", "delete"])
def test_a_store_that_cannot_be_written_is_refused_before_anything_is_booked(step, store, tmp_path):
    store.broken = lambda asked, key: asked == step
    with pytest.raises(EngineError, match="--out 's3://bucket/out/b' cannot be written") as told:
        booked(tmp_path, "s3://bucket/out/b")
    assert "secret" not in str(told.value)
    assert Ledger(tmp_path / "ledger").entries() == []


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("s3://bucket", "names a bucket: add a name"),
        ("https://host/b?sig=secret", r"--out 'https://host/b\?\*\*\*' is reached by Spark only"),
        ("s3://key:secret@bucket/b", r"s3://\*\*\*@bucket/b: an address of s3:// takes no user"),
    ],
)
def test_an_address_that_cannot_hold_a_bundle_is_refused(address, words, store, tmp_path):
    with pytest.raises(UsageError, match=words) as told:
        booked(tmp_path, address)
    assert "secret" not in str(told.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data/query.parquet", SUMS])
def test_a_bundle_that_cannot_be_finished_is_taken_back_and_its_cost_said(name, store, tmp_path):
    store.broken = lambda step, key: step == "write" and key.endswith(f"b/{name}")
    with pytest.raises(DiskError, match="nothing was published; its budget stays booked") as told:
        booked(tmp_path, "s3://bucket/out/b")
    (entry,) = Ledger(tmp_path / "ledger").entries()
    assert entry.state == "reserved"
    assert entry.release_id in str(told.value)
    assert "no connection, or it broke off" in str(told.value)
    assert "may be left there" not in str(told.value)
    assert "secret" not in str(told.value)
    assert files_below(store.root / "bucket/out") == []
    store.broken = lambda step, key: False
    assert booked(tmp_path, "s3://bucket/out/b").booked  # what is left does not stand in the way


def test_what_cannot_be_taken_back_is_said_and_does_not_verify(store, tmp_path):
    store.broken = lambda step, key: "out/b/" in key and (step == "delete" or key.endswith(SUMS))
    with pytest.raises(DiskError, match="objects of it, which do not verify, may be left there"):
        booked(tmp_path, "s3://bucket/out/b")
    assert verify(store.root / "bucket/out/b").exit_code != 0


@pytest.mark.parametrize("name", ["data/query.parquet", SUMS])
def test_ctrl_c_during_the_upload_leaves_a_reservation_and_says_so(name, store, tmp_path):
    def interrupt(step, key):
        if step == "write" and key.endswith(f"b/{name}"):
            raise KeyboardInterrupt

    store.broken = interrupt
    with pytest.raises(KeyboardInterrupt) as told:
        booked(tmp_path, "s3://bucket/out/b")
    (entry,) = Ledger(tmp_path / "ledger").entries()
    assert entry.state == "reserved"
    assert told.value.__notes__ == [
        f"epsilon 8, delta 0.0001 stay booked on source web as {entry.release_id}; nothing was published"
    ]
    assert files_below(store.root / "bucket/out") == []


@pytest.mark.parametrize("answers", [True, False])
def test_ctrl_c_when_the_bundle_is_there_leaves_it_committed(answers, store, tmp_path, monkeypatch):
    """After the last object, and again when the bundle would be taken back; then the store may be gone."""
    look = store.files.get_file_info

    def interrupt(paths):
        if SUMS in str(paths) and store.written[-1].endswith(SUMS):
            if store.broken("delete", ""):
                if answers:
                    return look(paths)
                raise OSError("AWS Error NETWORK_CONNECTION")
            store.broken = lambda step, key: step == "delete" and stop()
            raise KeyboardInterrupt
        return look(paths)

    def stop():
        store.broken = lambda step, key: True
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "get_file_info", interrupt)
    with pytest.raises(KeyboardInterrupt) as told:
        booked(tmp_path, "s3://bucket/out/b")
    (entry,) = Ledger(tmp_path / "ledger").entries()
    assert entry.state == "committed"
    known = "s3://bucket/out/b was published"
    unknown = "s3://bucket/out/b may have been published, which could not be checked: look there"
    assert told.value.__notes__[0].endswith(f"; {known if answers else unknown}")
    assert verify(store.root / "bucket/out/b", ledger=tmp_path / "ledger").exit_code == 0


# --- a live server --------------------------------------------------------------------------------

LIVE = pytest.mark.skipif(
    store_server.program() is None, reason="moto's server is not installed: make test-all"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("s3")
    found = store_server.S3(folder)
    write(invent(rows=3000, seed=1), folder / "a.parquet")
    write(invent(rows=3000, seed=2), folder / "b.parquet")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment().items():
            patch.setenv(name, value)
        for name in ("a", "b"):
            stored = object_store.open_store(f"s3://bucket/logs/{name}.parquet")
            data = (folder / f"{name}.parquet").read_bytes()
            object_store.put_object(stored, stored.path, iter([data]), len(data))
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


def publish(server, folder, out, **more):
    ledger = ("--ledger", str(folder / "ledger"), "--source", "web", "--new-source")
    return run(
        server, "release", "s3://bucket/logs/*.parquet", "--out", out, "--epsilon", "8", "--delta",
        "1e-4", *ledger, **more,
    )  # fmt: skip


def copied(server, prefix, folder):
    """What is below a prefix of the store, on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        stored = object_store.open_store(f"s3://bucket/{prefix}")
        for key, size in object_store._list(stored, stored.path, recursive=True):
            target = folder / key.removeprefix(f"bucket/{prefix}/")
            object_store._copy_object(stored, key, size, target)
    return folder


def states(folder):
    return [entry.state for entry in Ledger(folder / "ledger").entries()]


@pytest.mark.slow
@LIVE
class TestLive:
    def test_a_release_from_and_to_s3_verifies_and_holds_no_credentials(self, server, tmp_path):
        code, said = publish(server, tmp_path, "s3://bucket/out/one")
        assert code == 0, said
        assert "wrote s3://bucket/out/one" in said
        bundle = copied(server, "out/one", tmp_path / "copy")
        assert verify(bundle, ledger=tmp_path / "ledger").exit_code == 0
        assert states(tmp_path) == ["committed"]
        stored = [*(file.read_bytes() for file in bundle.rglob("*") if file.is_file())]
        assert not any(b"s3://" in data for data in stored)
        stored.append((tmp_path / "ledger").read_bytes())  # which says where the bundle is
        for secret in (server.key, server.secret, "127.0.0.1"):
            assert not any(secret.encode() in data for data in stored)
        code, said = publish(server, tmp_path, "s3://bucket/out/one")
        assert code == 2
        assert "exists: choose another name" in said
        assert states(tmp_path) == ["committed"]

    def test_profile_reads_the_same_rows_as_from_files(self, server):
        code, remote = run(server, "profile", "s3://bucket/logs", "--json")
        here, local = run(server, "profile", f"{server.local}/*.parquet", "--json")
        assert (code, here) == (0, 0)
        assert remote[: remote.rindex("}")] == local[: local.rindex("}")]

    def test_wrong_credentials(self, server, tmp_path):
        code, said = publish(
            server, tmp_path, "s3://bucket/out/two", AWS_SECRET_ACCESS_KEY="wrong-secret-value"
        )
        assert code == 4
        assert "access denied: check the credentials" in said
        assert states(tmp_path) == []

    def test_a_bucket_that_is_not_there(self, server, tmp_path):
        code, said = publish(server, tmp_path, "s3://other-bucket/two")
        assert code == 5
        assert "--out 's3://other-bucket/two' cannot be" in said
        assert states(tmp_path) == []

    def test_an_object_that_vanishes_between_list_and_read(self, server, tmp_path):
        key = "logs/c.parquet"
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment().items():
                patch.setenv(name, value)
            stored = object_store.open_store(f"s3://bucket/{key}")
            object_store.put_object(stored, stored.path, iter([b"x"]), 1)

            def vanish(method, path):
                if path.startswith(f"/bucket/{key}"):
                    object_store.remove_objects(stored, [stored.path])

            with store_server.proxied(server, vanish) as proxy:
                code, said = publish(server, tmp_path, "s3://bucket/out/three", url=proxy.url)
        assert code == 4
        assert "s3://bucket/logs/c.parquet could not be read: it was listed, and is gone" in said
        assert states(tmp_path) == []

    def test_a_slow_network_is_waited_for(self, server, tmp_path):
        with store_server.proxied(server, lambda method, path: 100_000) as proxy:
            code, said = publish(server, tmp_path, "s3://bucket/out/four", url=proxy.url)
        assert code == 0, said
        assert verify(copied(server, "out/four", tmp_path / "copy")).exit_code == 0

    def test_a_network_that_stalls_is_given_up(self, server, tmp_path):
        def stall(method, path):
            return "stall" if method == "GET" and path.startswith("/bucket/logs/b") else None

        with store_server.proxied(server, stall) as proxy:
            code, said = publish(server, tmp_path, "s3://bucket/out/five", url=proxy.url)
        assert code == 4
        assert "s3://bucket/logs/b.parquet could not be read: no " in said
        assert states(tmp_path) == []

    def test_a_network_that_trickles_is_given_up_and_the_command_ends(self, server, tmp_path):
        soon = "import murmurlog.logs.object_store as store; store.PATIENCE = 3.0; " + COMMAND
        with store_server.proxied(server, lambda method, path: 500) as proxy:
            code, said = run(
                server, "profile", "s3://bucket/logs/b.parquet", url=proxy.url, command=soon
            )
        assert code == 4
        assert "s3://bucket/logs/b.parquet could not be read: no answer within 3 seconds" in said

    def test_a_server_that_dies_during_the_upload_publishes_nothing(self, tmp_path):
        (tmp_path / "s3").mkdir()
        dying = store_server.S3(tmp_path / "s3")
        write(invent(rows=3000, seed=1), tmp_path / "a.parquet")

        def die(method, path):
            if method in ("PUT", "POST") and path.startswith("/bucket/out/six/data/query"):
                dying.stop()

        with store_server.proxied(dying, die) as proxy:
            ledger = ("--ledger", str(tmp_path / "ledger"), "--source", "web", "--new-source")
            code, said = run(
                dying, "release", str(tmp_path / "a.parquet"), "--out", "s3://bucket/out/six",
                "--epsilon", "8", "--delta", "1e-4", *ledger, url=proxy.url,
            )  # fmt: skip
            sent = [path for method, path in proxy.calls if method in ("PUT", "POST")]
        assert any("out/six/" in path for path in sent)
        assert not any(SUMS in path for path in sent)
        assert code == 5
        said = " ".join(said.split())
        assert "nothing was published; its budget stays booked as" in said
        assert "which do not verify, may be left there" in said
        assert states(tmp_path) == ["reserved"]

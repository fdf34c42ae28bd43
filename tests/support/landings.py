"""Bundles put to other file systems by Hadoop's clients, for `test_spark_files`.

    python landings.py FOLDER

runs on Spark, in a process of its own. A server of WebHDFS and one of FTP serve parts of the folder.
"""

import re
import sys
import threading
from pathlib import Path
from unittest.mock import patch

import pytest
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import ThreadedFTPServer
from webhdfs import WebHdfs

from murmurlog.errors import EngineError, UsageError
from murmurlog.logs.engines.spark import connect
from murmurlog.publishing import remote_target as spark_files
from murmurlog.publishing.remote_target import landing

FILES = {"README.md": b"words", "SHA256SUMS": b"sums", "data/query.parquet": b"\x00rows" * 9000}


def found(folder):
    """The files below a folder, also hidden ones."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(kind, words):
    return pytest.raises(kind, match=re.escape(words))


def put(engine, uri):
    with landing(engine, uri) as place:
        place.put(last="SHA256SUMS")


def lands_whole(engine, server):
    put(engine, f"{server.url}/out/whole")
    assert found(server.folder / "out") == {f"whole/{name}": FILES[name] for name in FILES}
    made = [path for operation, path in server.calls if operation == "CREATE"]
    assert made
    assert not any(path.startswith("/out/whole") for path in made)
    with refused(UsageError, "exists: choose another folder"):
        put(engine, f"{server.url}/out/whole")
    with refused(UsageError, "there is no folder '/none'"):
        put(engine, f"{server.url}/none/bundle")
    with refused(UsageError, "names no folder"):
        put(engine, server.url + "/")
    assert [p.name for p in (server.folder / "out").iterdir()] == ["whole"]


def a_failure_leaves_nothing(engine, server):
    for operation, part in (("CREATE", "SHA256SUMS"), ("RENAME", ""), ("CREATE", "parquet")):
        server.broken = lambda o, path, wanted=(operation, part): (
            o == wanted[0] and wanted[1] in path
        )
        with refused(EngineError, "told to fail"):
            put(engine, f"{server.url}/out/half")
        server.broken = lambda operation, path: False
        assert {p.name for p in (server.folder / "out").iterdir()} == {"whole"}
    server.broken = lambda operation, path: operation == "MKDIRS"
    with refused(EngineError, "told to fail"), landing(engine, f"{server.url}/out/half"):
        raise AssertionError("the place cannot be written")
    server.broken = lambda operation, path: False


def what_came_meanwhile_is_not_touched(engine, server):
    theirs = server.folder / "out" / "race"

    def comes(operation, path):
        if operation == "RENAME":
            theirs.mkdir()
            (theirs / "own").write_bytes(b"theirs")
        return False

    server.broken = comes
    with refused(UsageError, "exists"):
        put(engine, f"{server.url}/out/race")
    server.broken = lambda operation, path: False
    assert found(theirs) == {"own": b"theirs"}


def without_renaming_the_sums_come_last(engine, server):
    with patch.object(spark_files, "ONE_STEP", ()):
        server.calls.clear()
        put(engine, f"{server.url}/out/new/store")
        made = [path for operation, path in server.calls if operation == "CREATE"]
        assert made[-1] == "/out/new/store/SHA256SUMS"
        assert made[0] != made[-1]
        assert all(path.startswith("/out/new/store/") for path in made)
        assert found(server.folder / "out" / "new") == {f"store/{n}": FILES[n] for n in FILES}
        for name in FILES:
            server.broken = lambda operation, path, name=name: (
                operation == "CREATE" and path.endswith(name)
            )
            with refused(EngineError, "told to fail"):
                put(engine, f"{server.url}/out/new/half")
            server.broken = lambda operation, path: False
            assert not (server.folder / "out" / "new" / "half").exists()


def over_ftp(engine, folder):
    authorizer = DummyAuthorizer()
    authorizer.add_user("somebody", "secret", str(folder), perm="elradfmwMT")
    handler = type("Handler", (FTPHandler,), {"authorizer": authorizer})
    server = ThreadedFTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    uri = f"ftp://somebody:secret@127.0.0.1:{server.socket.getsockname()[1]}/bundle"
    put(engine, uri)
    assert found(folder) == {f"bundle/{name}": FILES[name] for name in FILES}
    with refused(UsageError, "exists"):
        put(engine, uri)
    server.close_all()


def through_a_view(engine, folder):
    settings = engine.session.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.all.link./seen", folder.as_uri())
    put(engine, "viewfs://all/seen/bundle")
    assert found(folder) == {f"bundle/{name}": FILES[name] for name in FILES}


def main():
    folder = Path(sys.argv[1])
    for name in ("hdfs/out", "ftp", "view"):
        (folder / name).mkdir(parents=True)
    server = WebHdfs(folder / "hdfs")
    with connect(master="local[1]", test=False) as engine:
        for name, data in FILES.items():
            (engine.private / "bundle" / name).parent.mkdir(parents=True, exist_ok=True)
            (engine.private / "bundle" / name).write_bytes(data)
        lands_whole(engine, server)
        a_failure_leaves_nothing(engine, server)
        what_came_meanwhile_is_not_touched(engine, server)
        without_renaming_the_sums_come_last(engine, server)
        over_ftp(engine, folder / "ftp")
        through_a_view(engine, folder / "view")
        with refused(EngineError, 'No FileSystem for scheme "nowhere"'):
            put(engine, "nowhere://host/bundle")
    server.stop()
    print("all landed")


if __name__ == "__main__":
    main()

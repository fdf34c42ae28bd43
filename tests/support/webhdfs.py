"""A folder served over the WebHDFS protocol on loopback, for Hadoop's own client.

A stand-in for a cluster's name and data nodes: it redirects as they do, renames in one step, and can be
told to fail. Paths, listings, ranges and errors are as https://hadoop.apache.org describes them.
"""

import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = "/webhdfs/v1"


class WebHdfs:
    """The server; `calls` are (operation, path) in order, `broken` operations fail."""

    def __init__(self, folder):
        self.folder, self.calls, self.broken = Path(folder), [], lambda operation, path: False
        handler = type("Handler", (Handler,), {"served": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"webhdfs://{self.address}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Nothing."""

    def do_GET(self):
        self._answer()

    do_PUT = do_POST = do_DELETE = do_GET

    def _answer(self):
        url = urlsplit(self.path)
        asked = {name.lower(): values[0] for name, values in parse_qs(url.query).items()}
        operation = asked["op"].upper()
        path = unquote(url.path).removeprefix(ROOT) or "/"
        self.target = self.served.folder / path.lstrip("/")
        self.served.calls.append((operation, path))
        if self.served.broken(operation, path):
            self._body()
            return self._fail(500, "java.io.IOException", "told to fail")
        try:
            self._dispatch(operation, asked, path)
        except FileNotFoundError:
            self._fail(404, "java.io.FileNotFoundException", f"File does not exist: {path}")

    def _dispatch(self, operation, asked, path):
        work = getattr(self, f"_{operation.lower()}", None)
        if work is None:
            return self._fail(
                400, "java.lang.UnsupportedOperationException", f"{operation} is not supported"
            )
        return work(asked, path)

    # --- what is read -----------------------------------------------------------------------------

    def _getfilestatus(self, asked, path):
        self._json({"FileStatus": _status(self.target, "")})

    def _liststatus(self, asked, path):
        inside = [self.target] if self.target.is_file() else sorted(self.target.iterdir())
        found = [_status(p, "" if p == self.target else p.name) for p in inside]
        self._json({"FileStatuses": {"FileStatus": found}})

    def _getfileblocklocations(self, asked, path):
        block = {
            "cachedHosts": [], "corrupt": False, "hosts": ["127.0.0.1"], "names": ["127.0.0.1:1"],
            "length": self.target.stat().st_size, "offset": 0, "storageIds": [],
            "storageTypes": ["DISK"], "topologyPaths": [],
        }  # fmt: skip
        self._json({"BlockLocations": {"BlockLocation": [block]}})

    def _open(self, asked, path):
        if "data" not in asked:
            _status(self.target, "")
            return self._redirect()
        offset, length = int(asked.get("offset", 0)), asked.get("length")
        with self.target.open("rb") as file:
            file.seek(offset)
            data = file.read(int(length) if length else -1)
        self._send(200, data, "application/octet-stream")

    def _gethomedirectory(self, asked, path):
        self._json({"Path": "/"})

    # --- what is written --------------------------------------------------------------------------

    def _mkdirs(self, asked, path):
        self.target.mkdir(parents=True, exist_ok=True)
        self._json({"boolean": True})

    def _create(self, asked, path):
        if self.target.exists() and asked.get("overwrite") != "true":
            self._body()
            return self._fail(
                403, "org.apache.hadoop.fs.FileAlreadyExistsException", f"{path} already exists"
            )
        if "data" not in asked:
            self._body()
            return self._redirect()
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.write_bytes(self._body())
        self._send(201, b"", None)

    def _rename(self, asked, path):
        to = self.served.folder / asked["destination"].lstrip("/")
        if to.is_dir():
            to = to / self.target.name  # as HDFS does
        if to.exists() or not self.target.exists() or not to.parent.is_dir():
            return self._json({"boolean": False})
        os.rename(self.target, to)
        self._json({"boolean": True})

    def _delete(self, asked, path):
        there = self.target.exists()
        if self.target.is_dir():
            shutil.rmtree(self.target)
        elif there:
            self.target.unlink()
        self._json({"boolean": there})

    def _setpermission(self, asked, path):
        self._send(200, b"", None)

    _settimes = _setpermission

    # --- HTTP -------------------------------------------------------------------------------------

    def _body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _redirect(self):
        self.send_response(307)
        self.send_header("Location", f"http://{self.served.address}{self.path}&data=true")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, value, code=200):
        self._send(code, json.dumps(value).encode(), "application/json")

    def _fail(self, code, kind, words):
        told = {"exception": kind.rpartition(".")[2], "javaClassName": kind, "message": words}
        self._json({"RemoteException": told}, code)

    def _send(self, code, data, kind):
        self.send_response(code)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _status(path, suffix):
    about = path.stat()
    folder = path.is_dir()
    return {
        "accessTime": 0, "blockSize": 0 if folder else 1 << 27, "childrenNum": 0, "fileId": 1,
        "group": "g", "length": 0 if folder else about.st_size,
        "modificationTime": int(about.st_mtime * 1000), "owner": "o", "pathSuffix": suffix,
        "permission": "755" if folder else "644", "replication": 0 if folder else 1,
        "storagePolicy": 0, "type": "DIRECTORY" if folder else "FILE",
    }  # fmt: skip

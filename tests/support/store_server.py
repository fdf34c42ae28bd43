"""An S3 server on loopback (moto's) that checks signatures, and a proxy before it that can misbehave.

moto needs versions of packages that murmurlog's lock does not have, so it lives in an environment of its
own: `make test-all` makes it. The server is a process, and murmurlog's own client talks to it.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlencode
from urllib.request import Request, urlopen

from pyarrow import fs

BUCKET = "bucket"
POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'
REQUEST = re.compile(rb"^(GET|PUT|HEAD|POST|DELETE) (\S+) HTTP/1", re.MULTILINE)


def find_program():
    """The command that starts moto's server; None if it is not installed."""
    own = Path(sys.prefix) / "moto" / "bin" / "moto_server"
    return str(own) if own.exists() else shutil.which("moto_server")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class S3:
    """A server with one bucket and one user."""

    def __init__(self, folder):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        with (folder / "moto.log").open("wb") as log:
            self.process = subprocess.Popen(
                [find_program(), "-H", "127.0.0.1", "-p", str(self.port)],
                stdout=log, stderr=log, cwd=folder,
                env=os.environ | {"INITIAL_NO_AUTH_ACTION_COUNT": "1000000"},
            )  # fmt: skip
        try:
            self._wait()
            self._set_up()
        except BaseException:
            self.stop()
            raise

    def _set_up(self):
        self._iam("CreateUser", UserName="owner")
        self._iam("PutUserPolicy", UserName="owner", PolicyName="all", PolicyDocument=POLICY)
        answer = self._iam("CreateAccessKey", UserName="owner")
        self.key, self.secret = (
            re.search(f"<{name}>(.*?)</{name}>", answer)[1]
            for name in ("AccessKeyId", "SecretAccessKey")
        )
        self._ask("PUT", f"/{BUCKET}")
        plain = {"Content-Type": "text/plain"}
        self._ask("POST", "/moto-api/reset-auth", b"0", plain)  # from now on signatures are checked

    def environment(self, url=None):
        """The variables by which a client finds the server."""
        return {
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, key, data):
        """Writes an object."""
        with self._files().open_output_stream(f"{BUCKET}/{key}") as stream:
            stream.write(data)

    def remove(self, key):
        """Removes an object, if it is there."""
        with suppress(FileNotFoundError):
            self._files().delete_file(f"{BUCKET}/{key}")

    def _files(self):
        return fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{self.port}", scheme="http", region="us-east-1",
            access_key=self.key, secret_key=self.secret,
            allow_delayed_open=True,  # a small object is one request
        )  # fmt: skip

    def stop(self):
        self.process.kill()
        self.process.wait()

    def _wait(self):
        for _ in range(300):
            with suppress(OSError), urlopen(f"{self.url}/moto-api/", timeout=5):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError("moto's server does not start")

    def _iam(self, action, **fields):
        scope = "Credential=x/20260101/us-east-1/iam/aws4_request"
        headers = {"Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=x"}
        body = urlencode({"Action": action, "Version": "2010-05-08", **fields}).encode()
        return self._ask("POST", "/", body, headers)

    def _ask(self, method, path, body=None, headers=None):
        asked = Request(self.url + path, data=body, headers=headers or {}, method=method)
        with urlopen(asked, timeout=30) as answer:
            return answer.read().decode()


class Proxy:
    """Passes bytes between a client and a server.

    `hook(method, path)` is called before a request is passed on; what it returns decides: "stall" keeps
    the client waiting, a number is the most bytes a second of answers.
    """

    def __init__(self, port, hook):
        self.target, self.hook, self.open = port, hook, True
        self.calls = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.open = False
        self.listener.close()

    def _accept(self):
        while self.open:
            with suppress(OSError):
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        state = {"rate": None}
        with (
            client,
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.target)) as server,
        ):
            back = threading.Thread(target=self._back, args=(server, client, state), daemon=True)
            back.start()
            while self.open and (data := client.recv(1 << 16)):
                for method, path in REQUEST.findall(data):
                    asked = (method.decode(), unquote(path.decode()))
                    self.calls.append(asked)
                    state["rate"] = self.hook(*asked)
                while state["rate"] == "stall" and self.open:
                    time.sleep(0.05)
                server.sendall(data)
            back.join(1)

    def _back(self, server, client, state):
        with suppress(OSError):
            while self.open and (data := server.recv(1 << 12)):
                client.sendall(data)
                if isinstance(rate := state["rate"], int):
                    time.sleep(len(data) / rate)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def run_proxy(server, hook=lambda method, path: None):
    proxy = Proxy(server.port, hook)
    try:
        yield proxy
    finally:
        proxy.stop()

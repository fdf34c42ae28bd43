"""Objects of stores: addresses without secrets, what is listed, and what happens when a store fails."""

import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyarrow import fs

from murmurlog.errors import DiskError, InputError, UsageError
from murmurlog.logs import object_store
from murmurlog.logs.addresses import mask
from murmurlog.logs.inputs import local_source, name_of
from murmurlog.logs.object_store import StoreError, copy_source, is_waiting, open_store, run_in_time
from murmurlog.logs.options import SourceOptions

KEYS = ["logs/a.csv", "logs/b.csv", "logs/_c.csv", "logs/more/d.csv", "logs/more/deep/e.csv",
        "logs/[x].csv", "single.parquet"]  # fmt: skip


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder that is served as a store: addresses s3://bucket/... are files of it."""
    for key in KEYS:
        (tmp_path / "store" / "bucket" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / "bucket" / key).write_text(key)
    files = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())
    monkeypatch.setattr(object_store, "_file_system", lambda scheme, account: files)
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("s3://bucket/logs/*.csv", "s3://bucket/logs/*.csv"),
        ("s3://bucket/log?.csv", "s3://bucket/log?.csv"),
        ("s3://bucket/day=1/a#b.csv", "s3://bucket/day=1/a#b.csv"),
        ("s3://key:secret@bucket/log", "s3://***@bucket/log"),
        ("S3://key:se/cret@bucket/log", "S3://key:se/cret@bucket/log"),
        ("s3://bucket/log?X-Amz-Signature=secret", "s3://bucket/log?***"),
        ("https://user@host/a.csv", "https://***@host/a.csv"),
        ("https://host/a.csv?sig=secret#secret", "https://host/a.csv?***"),
        ("ftp://user:secret@host/a?b", "ftp://***@host/a?***"),
        ("abfs://box@account.dfs.core.windows.net/a", "abfs://box@account.dfs.core.windows.net/a"),
        ("abfs://box:secret@account/a", "abfs://***@account/a"),
        ("log.csv?x=secret", "log.csv?x=secret"),
    ],
)
def test_an_address_is_shown_without_secrets(address, masked):
    assert mask(address) == masked
    assert "secret" not in name_of(address) or "://" not in address or "/cret" in address


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            "s3://key:secret@bucket/log.csv",
            r"s3://\*\*\*@bucket/log.csv: an address of s3:// takes no",
        ),
        (
            "s3://bucket/a.csv?sig=secret",
            r"s3://bucket/a.csv\?\*\*\*: an address of s3:// takes no",
        ),
        (
            "https://user:secret@host/a.csv",
            r"https://\*\*\*@host/a.csv: .* no user and no password",
        ),
        ("https://host/?sig=secret", "names no file"),
        (
            "http://host/a.csv?sig=secret",
            r"http://host/a.csv\?\*\*\* is not read: http:// is none of",
        ),
        ("hdfs://user:secret@host/a", "hdfs://.*is not read.*--engine spark"),
        ("s3://", "is no address of an object"),
        ("s3://buck*/a", "is no address of an object"),
        ("s3://bucket/../a", "is no address of an object"),
        ("az://box/a.csv", "set AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_and_its_secrets_are_not_shown(
    address, words, monkeypatch
):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    with pytest.raises(UsageError, match=words) as error, local_source(address, SourceOptions()):
        pass
    assert "secret" not in str(error.value)


def test_accounts_of_azure_come_from_the_address_or_a_variable(monkeypatch):
    calls = []
    monkeypatch.setattr(fs, "AzureFileSystem", lambda **arguments: calls.append(arguments))
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "secret")
    assert open_store("az://box/a.csv").path == "box/a.csv"
    assert open_store("abfs://box@other.dfs.core.windows.net/a.csv").path == "box/a.csv"
    assert [arguments["account_name"] for arguments in calls] == ["mine", "other"]
    assert calls[0]["account_key"] == "secret"


@pytest.mark.parametrize(
    ("address", "files"),
    [
        ("s3://bucket/single.parquet", ["single.parquet"]),
        ("s3://bucket/logs", ["logs/[x].csv", "logs/a.csv", "logs/b.csv"]),
        ("s3://bucket/logs/", ["logs/[x].csv", "logs/a.csv", "logs/b.csv"]),
        ("s3://bucket/logs/*.csv", ["[x].csv", "_c.csv", "a.csv", "b.csv"]),
        ("s3://bucket/logs/?.csv", ["a.csv", "b.csv"]),
        ("s3://bucket/logs/[!a].csv", ["b.csv"]),
        ("s3://bucket/logs/**/*.csv",
         ["[x].csv", "_c.csv", "a.csv", "b.csv", "more/d.csv", "more/deep/e.csv"]),
        ("s3://bucket/l*/more/*.csv", ["logs/more/d.csv"]),
    ],
)  # fmt: skip
def test_objects_are_listed_as_files_are(address, files, store, tmp_path):
    (tmp_path / "copy").mkdir()
    copy_source(address, tmp_path / "copy", lambda _: None)
    copied = [file for file in (tmp_path / "copy").rglob("*") if file.is_file()]
    assert sorted(file.relative_to(tmp_path / "copy").as_posix() for file in copied) == files
    assert all(file.read_text().endswith(file.name) for file in copied)
    if "*" in address or "?" in address:  # the same pattern on a disk
        local = Path(store / "bucket").glob(address.removeprefix("s3://bucket/"))
        assert len(list(local)) == len(files)


def test_the_copy_is_read_as_the_files_are_and_removed(store):
    with local_source("s3://bucket/logs/*.csv", SourceOptions()) as path:
        folder = Path(path).parent
        assert sorted(file.name for file in folder.glob("?.csv")) == ["a.csv", "b.csv"]
        assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_a_table_of_a_database_in_a_store_can_be_named(store, tmp_path):
    copy = copy_source("s3://bucket/single.parquet::table", tmp_path, lambda _: None)
    assert copy == f"{tmp_path}/single.parquet::table"


def test_nothing_at_an_address_is_said(store, tmp_path):
    with pytest.raises(
        InputError, match="s3://bucket/none could not be read: there is no such obj"
    ):
        copy_source("s3://bucket/none", tmp_path, lambda _: None)


def test_an_object_that_is_gone_after_listing_is_named(store, tmp_path):
    def remove(words):
        if words.startswith("copying b.csv"):
            (store / "bucket/logs/b.csv").unlink()

    with pytest.raises(InputError, match="s3://bucket/logs/b.csv .*: it was listed, and is gone"):
        copy_source("s3://bucket/logs/?.csv", tmp_path, remove)


def test_an_object_that_changes_after_listing_is_named(store, tmp_path):
    def change(words):
        (store / "bucket/single.parquet").write_text("something longer than before")

    with pytest.raises(InputError, match="it changed while it was read"):
        copy_source("s3://bucket/single.parquet", tmp_path, change)


def test_keys_cannot_leave_the_folder():
    for key in ("bucket/../../a", "bucket//a", "bucket/./a"):
        with pytest.raises(InputError, match="rename it"):
            object_store._relative_path(key, "bucket")


def test_a_step_that_takes_too_long_ends(monkeypatch):
    monkeypatch.setattr(object_store, "PATIENCE", 0.05)
    hold = threading.Event()
    with pytest.raises(StoreError, match="no answer within 0.05 seconds"):
        run_in_time(hold.wait)
    assert is_waiting()
    hold.set()
    for thread in object_store._threads:
        thread.join()
    assert not is_waiting()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject: secret", "access denied"),
        ("AWS Error SIGNATURE_DOES_NOT_MATCH: secret", "access denied"),
        ("AWS Error NETWORK_CONNECTION: secret", "no connection"),
        ("AWS Error SLOW_DOWN: secret", "the store answered SLOW_DOWN"),
        ("secret", "the store failed"),
    ],
)
def test_words_of_a_store_are_not_passed_on(words, message):
    def fail():
        raise OSError(words)

    with pytest.raises(StoreError, match=message) as raised:
        run_in_time(fail)
    assert "secret" not in str(raised.value)


def test_a_full_disk_is_said(store, tmp_path):
    with pytest.raises(DiskError, match="set TMPDIR"):  # the folder is a file
        copy_source("s3://bucket/logs", store / "bucket/single.parquet", lambda _: None)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing."""

    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        name = self.path.partition("?")[0]
        if name == "/away":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/log.csv")
        elif name == "/here":
            self.send_response(302)
            self.send_header("Location", "/log.csv")
        elif name in ("/log.csv", "/short.csv", "/unknown.csv"):
            self.send_response(200)
            if name != "/unknown.csv":
                self.send_header("Content-Length", "12" if name == "/log.csv" else "99")
            self.end_headers()
            self.wfile.write(b"user,query\n\n")
            return
        else:
            self.send_response(404 if name == "/none.csv" else 403)
        self.end_headers()


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """An https server on loopback, and the file of its certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("web")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem",
         "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, f"https://127.0.0.1:{server.server_address[1]}", str(folder / "cert.pem")
    server.shutdown()
    server.server_close()


def test_a_file_over_https_is_a_plain_get(web, tmp_path, monkeypatch):
    server, url, certificate = web
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    monkeypatch.setenv("NO_PROXY", "*")
    for path in ("/log.csv?sig=secret", "/here", "/unknown.csv"):
        folder = tmp_path / path.strip("/")[:4]
        folder.mkdir()
        copy = copy_source(url + path, folder, lambda _: None)
        assert Path(copy).read_bytes() == b"user,query\n\n"
        assert "?" not in copy
    _, headers = server.requests[-1]
    assert not {"Authorization", "Cookie"} & set(headers)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/none.csv?sig=secret", r"none.csv\?\*\*\* could not be read: HTTP 404"),
        ("/other.csv", "HTTP 403"),
        ("/away", "redirects to an address that is not https"),
        ("/short.csv", "it ended early"),
    ],
)
def test_a_file_that_cannot_be_had_over_https_is_said(path, words, web, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", web[2])
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(InputError, match=words) as error:
        copy_source(web[1] + path, tmp_path, lambda _: None)
    assert "secret" not in str(error.value)


def test_a_server_that_nobody_vouches_for_is_refused(web, tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(InputError, match="the certificate of the server is not valid"):
        copy_source(web[1] + "/log.csv", tmp_path, lambda _: None)

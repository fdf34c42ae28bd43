"""Objects of a store, copied to this machine: s3://, gs://, az://, abfs://; files of https://.

Arrow's file systems do the work. Credentials come from the variables and files of each ecosystem (AWS_*,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_*), never from an address. Every step has a time limit. Words of a
store are not passed on, since they can quote what was sent.
"""

import fnmatch
import os
import re
import ssl
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from glob import escape
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from murmurlog.errors import DiskError, InputError, MurmurlogError, UsageError
from murmurlog.logs.addresses import mask, scheme_of

PIECE = 1 << 20  # bytes that are copied at a time
PATIENCE = 60.0  # seconds for one step: a piece, a list of objects, the head of an object
CONNECT_SECONDS = 10.0
ATTEMPTS = 3
PATTERN = re.compile(r"[*?\[]")
Result = TypeVar("Result")
_threads: list[threading.Thread] = []  # of steps that may still run


class StoreError(Exception):
    """A step that failed, in words without secrets."""


class NotFound(StoreError):
    """There is no such object."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """A file system of a store, and the path that an address names in it: bucket/key."""

    files: Any
    path: str
    name: str  # the address, for messages

    def inside(self, key: str) -> str:
        """An object in messages: below the bucket of the address."""
        return f"{self.name.partition('://')[0]}://{key}"


def open_store(address: str) -> Store:
    """The store of an address; raises if it cannot be used, and connects to nothing."""
    name, scheme = mask(address), scheme_of(address)
    if name != address:
        raise UsageError(
            f"{name}: an address of {scheme}:// takes no user, password or query. Credentials come from "
            "the variables and files of its own tools (docs/how-to/object-stores.md)."
        )
    path = address.partition("://")[2].strip("/")
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get(
        "AZURE_STORAGE_ACCOUNT"
    )
    if scheme == "abfs" and "@" in (host := path.partition("/")[0]):
        container, _, server = host.partition("@")
        account, path = server.partition(".")[0], container + path[len(host) :]
    if PATTERN.search(path.partition("/")[0]) or {"", ".", ".."} & set(path.split("/")):
        raise UsageError(f"{name} is no address of an object: write {scheme}://bucket/name")
    try:
        files = _file_system(scheme, account)
    except (AttributeError, ImportError):
        raise UsageError(
            f"this build of pyarrow has no file system for {scheme}://: pip install --upgrade pyarrow"
        ) from None
    return Store(files=files, path=path, name=name)


def _file_system(scheme: str, account: str | None) -> Any:
    if scheme == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        place = urlsplit(endpoint)
        override = {"endpoint_override": place.netloc, "scheme": place.scheme} if endpoint else {}
        return fs.S3FileSystem(
            connect_timeout=CONNECT_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
            **override,
        )
    if scheme == "gs":
        from datetime import timedelta

        return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=PATIENCE / 2))
    if not account:
        raise UsageError(
            f"{scheme}:// needs the name of the storage account: set AZURE_STORAGE_ACCOUNT_NAME, or write "
            "abfs://container@account.dfs.core.windows.net/name"
        )
    key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY") or os.environ.get("AZURE_STORAGE_KEY")
    return fs.AzureFileSystem(
        account_name=account, account_key=key, sas_token=os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    )


def run_in_time(work: Callable[[], Result]) -> Result:
    """What `work` returns; raises StoreError if it fails or takes longer than `PATIENCE`.

    The clients of stores have no time limit for a slow connection, so the work runs in a thread, which is
    abandoned if it takes too long (`is_waiting`).
    """
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    _threads[:] = [thread, *(other for other in _threads if other.is_alive())]
    thread.start()
    thread.join(PATIENCE)
    if done:
        return done[0]
    if failed:
        raise _explain(failed[0]) from None
    raise StoreError(f"no answer within {PATIENCE:g} seconds")


def is_waiting() -> bool:
    """Whether a step still runs that was given up or interrupted; Arrow waits for it at exit."""
    return any(thread.is_alive() for thread in _threads)


def _explain(error: BaseException) -> BaseException:
    """An error of a client in our words; errors of the program itself stay as they are."""
    if isinstance(error, (StoreError, MurmurlogError)):
        return error
    if isinstance(error, HTTPError):
        error.close()
        return NotFound("HTTP 404") if error.code == 404 else StoreError(f"HTTP {error.code}")
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(
        getattr(error, "reason", None), ssl.SSLCertVerificationError
    ):
        return StoreError("the certificate of the server is not valid")
    if isinstance(error, URLError):
        return StoreError("no connection")
    if isinstance(error, FileNotFoundError):
        return NotFound("there is no such object or bucket")
    if not isinstance(error, (OSError, HTTPException, ValueError)):
        return error
    if re.search(r"PERMISSION_?DENIED|ACCESS_DENIED|HTTP status 40[13]", text := str(error), re.I):
        return StoreError("access denied: check the credentials and what they allow")
    if re.search(r"NO_SUCH_BUCKET|NO_SUCH_KEY|HTTP status 404", text, re.I):
        return NotFound("there is no such object or bucket")
    code = re.search(r"AWS Error ([A-Z][A-Z0-9_]+)", text)
    if code and code[1] == "NETWORK_CONNECTION" or isinstance(error, TimeoutError):
        return StoreError("no connection, or it broke off")
    if code and code[1] in ("INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH"):
        return StoreError("access denied: check the credentials and what they allow")
    return StoreError(f"the store answered {code[1]}" if code else "the store failed")


def copy_source(address: str, folder: Path, say: Callable[[str], None]) -> str:
    """Copies the objects of an address into a folder; returns the path or pattern to read there.

    As on a disk, an address is an object, a prefix as a folder, or a pattern, and may end in ::table.
    """
    where, colons, table = address.partition("::")
    if scheme_of(where) == "https":
        return str(_download(where, folder, say)) + colons + table
    store = open_store(where)
    try:
        objects = run_in_time(lambda: _find(store))
        if not objects:
            raise NotFound("there is no such object, and nothing below it")
    except StoreError as error:
        raise _read_failure(store.name, error) from None
    root = _root(store.path)
    for key, size in objects:
        target = folder / _relative_path(key, root)
        say(f"copying {target.name}: {size / 1e6:,.1f} MB")
        try:
            _copy_object(store, key, size, target)
        except StoreError as error:
            if isinstance(error, NotFound):
                error = StoreError("it was listed, and is gone")
            raise _read_failure(store.inside(key), error) from None
    rest = _relative_path(store.path, root)
    return (
        (f"{escape(str(folder))}/{rest}" if PATTERN.search(store.path) else str(folder / rest))
        + colons
        + table
    )


def _read_failure(name: str, error: StoreError) -> InputError:
    return InputError(f"{name} could not be read: {error}. Nothing was booked or written.")


def _root(path: str) -> str:
    """The folder of an object, or of a pattern what is before its first wildcard."""
    return PATTERN.split(path, maxsplit=1)[0].rpartition("/")[0]


def _relative_path(key: str, root: str) -> PurePosixPath:
    """The key as a path below its root; keys that would leave the folder are refused."""
    parts = key.removeprefix(root).removeprefix("/").split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise InputError("the name of an object has an empty part, '.' or '..' in it: rename it")
    return PurePosixPath(*parts)


def _find(store: Store) -> list[tuple[str, int]]:
    """The keys and sizes of an object, of those directly below a prefix, or of those that match."""
    if PATTERN.search(store.path):
        objects = _list(store, _root(store.path), recursive=True)
        expression = _expression(store.path)
        return [(key, size) for key, size in objects if expression.fullmatch(key)]
    info = store.files.get_file_info(store.path)
    if info.type == fs.FileType.File:
        return [(info.path, info.size)]
    objects = _list(store, store.path, recursive=False)
    return [
        (key, size) for key, size in objects if not key.rpartition("/")[2].startswith((".", "_"))
    ]


def _list(store: Store, base: str, *, recursive: bool) -> list[tuple[str, int]]:
    selector = fs.FileSelector(base, recursive=recursive, allow_not_found=True)
    infos = store.files.get_file_info(selector)
    return sorted((i.path, i.size) for i in infos if i.type == fs.FileType.File)


def _expression(pattern: str) -> re.Pattern[str]:
    """The expression of a pattern as paths of a disk have it: * and ? stay in a folder, ** does not."""
    wild = {"**/": "(?:[^/]+/)*", "**": "[^/]*", "*": "[^/]*", "?": "[^/]"}

    def translate(match: re.Match[str]) -> str:
        text = match[0]
        if len(text) > 2 and text[0] == "[":
            return fnmatch.translate(text)[4:-3]  # without "(?s:" and ")\\Z"
        return wild.get(text) or re.escape(text)

    pieces = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", re.DOTALL)
    return re.compile(pieces.sub(translate, pattern))


def _copy_object(store: Store, key: str, size: int, target: Path) -> None:
    stream = run_in_time(lambda: store.files.open_input_stream(key))
    if _save(lambda: run_in_time(lambda: bytes(stream.read(PIECE))), target) != size:
        raise StoreError("it changed while it was read")


def _save(read: Callable[[], bytes], target: Path) -> int:
    """Writes the pieces to a new file; returns their size."""
    size = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        out: BinaryIO = target.open("xb")
    except OSError as error:
        raise _disk_error(error) from None
    with out:
        while piece := read():
            try:
                out.write(piece)
            except OSError as error:
                raise _disk_error(error) from None
            size += len(piece)
    return size


def _disk_error(error: OSError) -> DiskError:
    return DiskError(
        f"the log could not be copied to the folder for temporary files ({error.strerror}): set TMPDIR "
        "to a larger disk"
    )


class _SafeRedirects(request.HTTPRedirectHandler):
    """Follows redirects to https only."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        if scheme_of(newurl) != "https":
            fp.close()
            raise StoreError("it redirects to an address that is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """Plain GET over https: no cookies, no passwords, no other protocol."""
    opener = request.OpenerDirector()
    for handler in (request.ProxyHandler(), request.HTTPSHandler(), _SafeRedirects(),
                    request.HTTPDefaultErrorHandler(), request.HTTPErrorProcessor()):  # fmt: skip
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "murmurlog"), ("Accept-Encoding", "identity")]
    return opener


def _download(address: str, folder: Path, say: Callable[[str], None]) -> Path:
    parts, masked = urlsplit(address), mask(address)
    if "@" in parts.netloc:
        raise UsageError(f"{masked}: an address of https:// takes no user and no password")
    name = unquote(parts.path).rpartition("/")[2]
    if not name or name in (".", "..") or "\0" in name:
        raise UsageError(f"{masked} names no file: its path must end in one, such as /log.csv.gz")
    target = folder / name
    say(f"copying {name}")
    try:
        answer = run_in_time(lambda: _opener().open(address, timeout=PATIENCE / 2))
        with closing(answer):
            size = _save(lambda: run_in_time(lambda: bytes(answer.read(PIECE))), target)
        stated = answer.headers.get("Content-Length")
        if stated is not None and stated != str(size):
            raise StoreError("it ended early")
    except StoreError as error:
        raise _read_failure(masked, error) from None
    return target

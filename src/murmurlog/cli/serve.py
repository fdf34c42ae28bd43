"""The command that shows bundles in a browser. Imports are late: --help answers at once."""

import ipaddress
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from murmurlog.cli.options import FILE, INTEGER, command, option
from murmurlog.cli.output import progress, tell
from murmurlog.cli.stop import Stopped
from murmurlog.errors import EngineError, UsageError

MOST_HEAD = 96_000  # bytes of a request's head: a long address and a few headers
MOST_AT_ONCE = 100  # connections
BACKLOG = 64


@command(examples=["murmurlog serve bundle", "murmurlog serve first bundle --port 0 --no-browser"])
@click.argument(
    "bundles", type=FILE, nargs=-1, required=True, metavar="DIR...", help="Folders of bundles."
)
@option("--port", type=INTEGER, default=8765, help="0 takes any that is free.")
@option("--no-browser", is_flag=True, help="Do not open one.")
@option("--host", default="127.0.0.1", help="The address to listen on; others can then read along.")
@option("--name", multiple=True, help="A name by which it is reached, once for each.")
def serve(
    bundles: tuple[Path, ...], port: int, no_browser: bool, host: str, name: tuple[str, ...]
) -> None:
    """Look at bundles in a browser."""
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must lie between 0 and 65535, not {port}")
    try:
        import uvicorn

        from murmurlog.web.app import make
        from murmurlog.web.bundles import ServedBundles
        from murmurlog.web.guard import Hosts
    except ModuleNotFoundError as error:
        raise EngineError(
            f"the page needs {error.name}, which is not installed: pip install starlette uvicorn jinja2"
        ) from None
    address = _address(host)
    with progress() as say:
        served = ServedBundles(bundles, say=say)
    listening = _listen(address, port)
    hosts = Hosts(
        address=address, port=listening.getsockname()[1], names=tuple(n.lower() for n in name)
    )
    application = make(served, verifier=verify_bundle, hosts=hosts)
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    host_text = f"[{here}]" if ":" in here else here
    url = f"http://{host_text}:{hosts.port}/"
    with suppress(KeyboardInterrupt, Stopped):  # that is how it ends
        tell(f"serving {', '.join(served.by_name)} at {url} (Ctrl-C ends it)")
        if not hosts.loopback:
            tell("warning: not on loopback: whoever reaches this machine can read these bundles.")
        if not no_browser:
            threading.Timer(0.5, webbrowser.open, [url]).start()
        server = uvicorn.Server(
            uvicorn.Config(
                application,
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=False,
                http="h11",
                ws="none",
                lifespan="off",
                proxy_headers=False,
                limit_concurrency=MOST_AT_ONCE,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=2,
                h11_max_incomplete_event_size=MOST_HEAD,
            )
        )
        server.run(sockets=[listening])


def _address(host: str) -> str:
    """The address of a host; localhost is the one address that it stands for."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        raise UsageError(
            f"--host must be an address of this machine, such as 0.0.0.0, not {host!r}; a name goes "
            "to --name"
        ) from None


def _listen(address: str, port: int) -> Any:
    import socket

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"--port {port} at {address} cannot be had ({error.strerror}): choose another, or 0"
        ) from None
    listener.listen(BACKLOG)
    return listener


# --- what the page may not reach itself -----------------------------------------------------------


def verify_bundle(folder: Path) -> dict[str, Any]:
    """The checks of a bundle as it is on disk."""
    from murmurlog.auditing.verify import verify

    return verify(folder).as_json()

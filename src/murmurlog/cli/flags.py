"""The flags that commands share and that belong to no group of options."""

from pathlib import Path
from typing import Annotated, Any

import typer


def flag(*names: str, help: str, **more: Any) -> Any:
    env = "MURMURLOG_" + names[0].lstrip("-").replace("-", "_").upper()
    return typer.Option(*names, help=help, envvar=env, show_envvar=False, **more)


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file, folder, 'glob*', file.duckdb::table, s3://.., postgresql://..::table, - (stdin).",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    flag(
        "--memory",
        help="Memory limit, such as 8GB; more is spilled.",
        metavar="SIZE",
        rich_help_panel="Where it runs",
    ),
]
LedgerFile = Annotated[Path | None, flag("--ledger", help="The ledger file.", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

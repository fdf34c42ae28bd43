"""The command line in this process: starting Python anew takes two seconds each time.

What only a process of its own shows (pipes, signals, `--help` at once) is tested with one.
"""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from murmurlog.cli.main import main


@dataclass(frozen=True)
class CommandResult:
    returncode: int
    stdout: str
    stderr: str


def run(*arguments, cwd=None, env=None, main=main):
    """`murmurlog ARGUMENTS` in a folder, with no settings from the environment but `env`.

    `main` is another command's, such as that of `python -m papers`.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MURMURLOG_")}
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        mock.patch.dict(os.environ, kept | (env or {}), clear=True),
        mock.patch.object(sys, "argv", ["murmurlog", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    return CommandResult(code, out.getvalue(), err.getvalue())

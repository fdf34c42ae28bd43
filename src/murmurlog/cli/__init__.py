"""The command line: each command parses, calls one library function and prints."""

from murmurlog.cli.main import main

__all__ = ["main"]

"""Writes and strictly reads block YAML of plain dicts, lists and scalars."""

import json
import re
from typing import Any

_KEY = re.compile(r"([A-Za-z0-9_]+):(?: (.*))?")


def write(value: Any, depth: int = 0) -> str:
    """The value as text; a scalar's JSON is valid YAML."""
    pad = "  " * depth
    if isinstance(value, dict):
        return "".join(
            f"{pad}{key}:\n{write(item, depth + 1)}"
            if isinstance(item, dict | list)
            else f"{pad}{key}: {_scalar(item)}\n"
            for key, item in value.items()
        )
    return "".join(
        f"{pad}- {write(item, depth + 1).lstrip()}"
        if isinstance(item, dict)
        else f"{pad}- {_scalar(item)}\n"
        for item in value
    )


def _scalar(value: Any) -> str:
    # YAML 1.1 reads 1e-06 as text; 1.0e-06 is a number everywhere.
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value, ensure_ascii=False)


def read(text: str) -> Any:
    """The value that `write` turns into this text; raises ValueError if there is none."""
    lines = [(len(line) - len(line.lstrip(" ")), line.lstrip(" ")) for line in text.splitlines()]
    value = _block(lines, 0)
    if lines or write(value) != text:
        raise ValueError("it is not plain block YAML")
    return value


def _block(lines: list[tuple[int, str]], depth: int) -> Any:
    """Parses one dict or list and removes its lines from the front."""
    found: dict[str, Any] = {}
    listed: list[Any] = []
    while lines and lines[0][0] == depth:
        line = lines[0][1]
        if line.startswith("- "):
            if _KEY.fullmatch(line[2:]):  # a dict in a list: its first key is on the same line
                lines[0] = (depth + 2, line[2:])
                listed.append(_block(lines, depth + 2))
            else:
                listed.append(json.loads(lines.pop(0)[1][2:]))
        elif (match := _KEY.fullmatch(line)) and match[1] not in found:
            lines.pop(0)
            scalar = match[2]
            found[match[1]] = _block(lines, depth + 2) if scalar is None else json.loads(scalar)
        else:
            raise ValueError(f"{line!r:.40} is not plain block YAML, or repeats a key")
    return found or listed

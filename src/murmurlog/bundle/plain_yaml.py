"""Writes block YAML of plain dicts, lists and scalars."""

import json
from typing import Any


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

"""What the [release] section of a murmurlog.toml asks of a mechanism, for an audit."""

import math
import tomllib
from pathlib import Path
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.mechanisms import MECHANISMS

# Options that name files: an audit writes public pools, lists and labels of its own.
FILES = {"pool", "result-lists", "map", "fakes"}


def audited(path: Path) -> dict[str, Any]:
    """The arguments of `audit` for the release that a file describes; the log is not looked at."""
    try:
        sections = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--spec {str(path)!r} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name} is not TOML: {error}") from None
    section = sections.get("release")
    if not isinstance(section, dict):
        raise UsageError(f"{path.name} has no [release] section: there is nothing to audit")
    if "set" in section:
        raise UsageError(f"{path.name} gives letters (set): an audit needs epsilon and delta")
    if section.get("unit", "user") != "user":
        raise UsageError(f"{path.name}: audits are of unit user, not {section['unit']!r}")
    known = {option.replace("_", "-") for each in MECHANISMS.values() for option in each.options}
    options = {
        name.replace("-", "_"): value
        for name, value in section.items()
        if name in known - FILES - {"set-only"}
    }
    if section.get("set-only"):
        options["set_only"] = True
    tables = _listed(section.get("tables"))
    return {
        "mechanism": _by_table(section.get("mechanism")),
        "epsilon": _number(section.get("epsilon")),
        "delta": _number(section.get("delta")),
        "per_user": _bounds(section.get("per-user")),
        "neighbours": section.get("neighbours", "add-remove"),
        "noise": section.get("noise"),
        "tables": tuple(tables) if tables else None,
        "options": options,
    }


def _listed(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else str(value or "").split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def _by_table(value: Any) -> Any:
    """A name, or names by table."""
    if isinstance(value, dict):
        return {str(table): str(name) for table, name in value.items()}
    if isinstance(value, str) and "=" in value and "(" not in value:
        return dict(part.strip().split("=", 1) for part in value.split(","))
    return value


def _bounds(value: Any) -> Any:
    """One bound, or bounds by table; those that are not given are the usual ones of a release."""
    if isinstance(value, str) and "=" in value:
        value = dict(part.strip().split("=", 1) for part in value.split(","))
    if isinstance(value, dict):
        return {str(table): int(bound) for table, bound in value.items()}
    return {} if value is None else int(value)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    text = str(value)
    inner = text[3:-1] if text.startswith("ln(") and text.endswith(")") else None
    try:
        return float(text) if inner is None else math.log(float(inner))
    except ValueError:
        raise UsageError(f"{text!r} is no number (ln(10) is one, too)") from None

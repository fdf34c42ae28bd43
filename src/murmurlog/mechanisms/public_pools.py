"""The options `--pool` and `--fakes`: public keys for the tables of a release (A4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.decimals import decimal
from murmurlog.bundle.options import Option, read_number
from murmurlog.bundle.schema import in_order
from murmurlog.counting.public_sets.sets import Domain, Listed, has_tabs, read_pools
from murmurlog.errors import InputError
from murmurlog.mechanisms.protocol import OptionContext

FAKES = 10.0  # expected rows that nobody holds


@dataclass(frozen=True, kw_only=True)
class PublicPool:
    """Public keys for one table, and how many of them that nobody holds may be published."""

    keys: Domain
    fakes: float | None = None  # None: as --fakes says


def pools_of(options: Mapping[str, Any], table: str) -> tuple[PublicPool, ...]:
    """The public pools of a table; none if none was given."""
    value = options.get("pool")
    pools = value.get(table, ()) if isinstance(value, Mapping) else (value or ())
    return pools if isinstance(pools, tuple) else (PublicPool(keys=pools),)


def remarks_on_fakes(fakes: float) -> dict[str, Any]:
    """A note for readers of the table: nobody holds some of its rows."""
    return {"rows of the pool that nobody holds, expected": float(f"{fakes:.2g}")}


def _read_pools(value: Any) -> list[tuple[Path, float | None]]:
    """Files and their fakes: FILE or FILE:20, one or several."""
    texts = [value] if isinstance(value, str | Path) else list(value)
    pools: list[tuple[Path, float | None]] = []
    for text in texts:
        if isinstance(text, tuple):
            pools.append((Path(text[0]), text[1]))
            continue
        path, colon, fakes = str(text).rpartition(":")
        if not colon or Path(str(text)).exists():
            pools.append((Path(text), None))
        else:
            pools.append((Path(path), read_number(fakes)))
    return pools


def _prepare_pools(files: Any, context: OptionContext) -> dict[str, tuple[PublicPool, ...]]:
    """The public keys for the tables that need them, cleaned as the log is; no key is in two pools."""
    from murmurlog.mechanisms import find_mechanism

    classes = {table: find_mechanism(mechanism) for table, mechanism in context.mechanisms.items()}
    needed = [table for table, cls in classes.items() if "pool" in cls.option_names()]
    if any(cls.name == "safelog-literal" for cls in classes.values()):
        needed = ["query"]
    optional = [table for table in needed if classes[table].name == "rounds"]
    pools: dict[str, tuple[PublicPool, ...]] = {}
    pool_keys: dict[str, list[pa.Table]] = {}
    for path, fakes in _read_pools(files):
        tables = [t for t in needed if t not in optional] + _fitting(path, optional)
        if not tables:
            raise InputError(
                f"{path.name} fits none of the tables {', '.join(needed)}: a pool lists queries (or "
                "keywords), or lines of query<TAB>url (or query<TAB>next query)"
            )
        for table, keys in read_pools(
            path, tables=tables, url=context.url, keys=context.keys
        ).items():
            left = context.allowed(keys.table)
            for other in pool_keys.get(table, ()):
                left = left.join(other, left.column_names, join_type="left anti")
            if not left.num_rows:
                raise InputError(
                    f"{path.name} has no key for the {table} table that may be published"
                    + (" and is in no other pool" if table in pool_keys else "")
                )
            # A join has no order of its own, and a seed must repeat a release.
            left = in_order(left)
            pool_keys.setdefault(table, []).append(left)
            pool = PublicPool(keys=Listed(table=left), fakes=fakes)
            pools[table] = (*pools.get(table, ()), pool)
    return pools


def _fitting(path: Path, tables: Sequence[str]) -> list[str]:
    """The tables that the file's columns can be keys of, where a table can do without a pool."""
    choices = (("query", "click"), ("pair",)) if has_tabs(path) else (("query",), ("keyword",))
    fitting = ([table for table in tables if table in choice] for choice in choices)
    return next((matches for matches in fitting if matches), [])


POOL_OPTION = Option(
    name="pool",
    help="Public queries, a file of query or query<TAB>url lines; rounds takes several, FILE:FAKES.",
    read=_read_pools,
    kind=str | Path | Sequence[str | Path | tuple[str | Path, float | None]],
    repeated=True,
    public_file=True,
    prepare=_prepare_pools,
)
FAKES_OPTION = Option(name="fakes", help="Expected queries nobody asked. Default 10.", read=decimal)

"""Finite public sets of keys: a list from a file, or all sequences of words of an alphabet.

On such a set a mechanism can also noise keys that nobody holds, and so needs no delta for new keys.
The set must have been fixed without the log (A4). `unheld` draws uniform choices of keys, by
`sampler.draw_below`; a set may be far larger than what can be listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.canonical import changeable, cleaner
from murmurlog.bundle.keys import check_url_level, clean_url
from murmurlog.bundle.schema import KEYS
from murmurlog.errors import InputError, UsageError
from murmurlog.privacy.sampler import Entropy, Keys, draw_below

if TYPE_CHECKING:
    from murmurlog.counting.bound import BoundedItems
    from murmurlog.counting.items import Items, Mask
    from murmurlog.logs.log import Log
    from murmurlog.logs.text_keys import KeyList, TextKeys

    Keyed = Items | BoundedItems

BLOCK = 1 << 22  # bytes; cleaning a line takes up to forty times its size
MOST_LINE = 1 << 30  # bytes; a text without line feeds can be a pool, too
LEAST_FAKES = 1e-100  # quotients of it stay finite
LIST_AT_MOST = 4  # sets up to this many times the held and drawn keys are listed as a whole


class Domain(Protocol):
    """A finite public set of keys, numbered from 0."""

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns."""

    @property
    def size(self) -> int:
        """How many keys there are."""

    def keys(self, indices: npt.NDArray[Any]) -> pa.Table:
        """The keys with these numbers, in this order."""

    def inside(self, log: Log) -> Callable[[Keyed], Mask]:
        """Which distinct items of a partition are in the set, as a function of the partition."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Listed:
    """The distinct keys of a table that is public."""

    table: pa.Table

    def __post_init__(self) -> None:
        if self.table.num_rows == 0:
            raise UsageError("a public set of keys needs at least one key")
        if any(column.null_count for column in self.table.columns):
            raise UsageError("a public set of keys must not hold an empty key")
        # A repeated key would get two draws, and the size would be wrong.
        object.__setattr__(self, "table", distinct(self.table))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    @property
    def size(self) -> int:
        return int(self.table.num_rows)

    def keys(self, indices: npt.NDArray[Any]) -> pa.Table:
        return self.table.take(pa.array(indices, pa.int64()))

    def inside(self, log: Log) -> Callable[[Keyed], Mask]:
        from murmurlog.logs.text_keys import KeyList

        keys = KeyList.of(log.text_keys.columns(self.table.columns))
        return partial(_is_in_list, keys=log.partitions.share(keys))


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """All sequences of `shortest` to `longest` words of a public alphabet, repeats allowed.

    A key is a text, the words joined by `between`, or with between=None a list of words. Shorter
    sequences have lower numbers; among those of one length, the words are the digits in base n.
    """

    words: tuple[str, ...]
    shortest: int = 1
    longest: int
    name: str = "query"
    between: str | None = " "

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise UsageError(
                f"sequences have from 1 word up, not from {self.shortest} to {self.longest}"
            )
        if not self.words or len(set(self.words)) < len(self.words) or not all(self.words):
            raise UsageError("an alphabet needs at least one word, and each word once")
        # Otherwise two sequences could have one text, and one key would get two draws.
        if self.between is not None and (
            not self.between or any(self.between in word for word in self.words)
        ):
            raise UsageError(f"no word of an alphabet may hold {self.between!r}, the separator")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def size(self) -> int:
        return sum(len(self.words) ** n for n in self._lengths)

    @property
    def _lengths(self) -> range:
        return range(self.shortest, self.longest + 1)

    @cached_property
    def _alphabet(self) -> pa.Array:
        return pa.array(self.words, pa.string())

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def keys(self, indices: npt.NDArray[Any]) -> pa.Table:
        kind = pa.string() if self.between is not None else pa.list_(pa.string())
        if self.size > 2**63:
            indices = indices.astype(object)
        parts, places, start = [], [], 0
        for length in self._lengths:
            end = start + len(self.words) ** length
            rows = np.flatnonzero((indices >= start) & (indices < end))
            parts.append(self._of_length(length, indices[rows] - start).cast(kind))
            places.append(rows)
            start = end
        order = np.argsort(np.concatenate(places))
        joined = pa.chunked_array(parts, kind).take(pa.array(order))
        if len(joined) < len(indices):
            raise UsageError(f"there are {self.size} sequences; a number is beyond them")
        return pa.table({self.name: joined})

    def _of_length(self, length: int, number: npt.NDArray[Any]) -> pa.Array:
        n, columns = len(self.words), []
        for _ in range(length):
            number, digit = number // n, number % n
            columns.append(self._alphabet.take(pa.array(digit.astype(np.int64))))
        columns.reverse()
        if self.between is not None:
            return pc.binary_join_element_wise(*columns, self.between)
        flat = pa.concat_arrays(columns)  # word by word; the lists need it key by key
        rows = len(columns[0])
        order = np.arange(rows * length).reshape(length, rows).T.ravel()
        offsets = pa.array(np.arange(rows + 1) * length, pa.int32())
        return pa.ListArray.from_arrays(offsets, flat.take(pa.array(order)))

    def inside(self, log: Log) -> Callable[[Keyed], Mask]:
        return self._inside

    def _inside(self, items: Keyed) -> Mask:
        """Which of a partition's distinct items are sequences of the words."""
        (values,) = items.columns(np.arange(len(items.keys)))
        return np.array([self._holds(self._split(key)) for key in values.to_pylist()], bool)

    def _split(self, key: Any) -> Sequence[str]:
        return list(key) if self.between is None else key.split(self.between)

    def _holds(self, words: Sequence[str]) -> bool:
        return len(words) in self._lengths and all(word in self._places for word in words)


def _is_in_list(items: Keyed, *, keys: Callable[[], KeyList]) -> Mask:
    return keys().places(items.keys) >= 0


def unheld(
    domain: Domain, *, count: int, held_keys: Keys, text_keys: TextKeys, entropy: Entropy
) -> pa.Table:
    """`count` distinct keys chosen uniformly among those of the set that nobody holds.

    `held_keys` are the keys of those that somebody holds. Keys are drawn from the whole set; those drawn before
    or held are rejected, and the first `count` others are a uniform choice. Where that would reject
    often, the whole set is listed instead.
    """
    from murmurlog.logs.text_keys import distinct_keys, places_of

    held_keys = distinct_keys(held_keys)
    if count > domain.size - len(held_keys):
        raise UsageError(
            f"{count} keys are needed, but only {domain.size - len(held_keys)} are held by nobody"
        )
    if count == 0:
        return domain.keys(np.zeros(0, np.int64))

    def free(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        keys = text_keys.columns(domain.keys(numbers).columns)
        return numbers[places_of(keys, held_keys) < 0]

    if domain.size <= LIST_AT_MOST * (len(held_keys) + count):
        left = free(np.arange(domain.size))
        return domain.keys(left[draw_distinct(len(left), count=count, entropy=entropy)])
    chosen: dict[int, None] = {}  # in the order drawn: any other order would prefer some keys
    while len(chosen) < count:
        missing = count - len(chosen)
        numbers = draw_below(domain.size, count=missing + missing // 2 + 8, entropy=entropy)
        new = [i for i in dict.fromkeys(numbers.tolist()) if i not in chosen]
        chosen |= dict.fromkeys(free(np.array(new, dtype=numbers.dtype))[:missing].tolist())
    return domain.keys(np.array(list(chosen), dtype=numbers.dtype))


def draw_distinct(size: int, *, count: int, entropy: Entropy) -> npt.NDArray[np.int64]:
    """`count` distinct integers of [0, size), every such set equally likely."""
    if 2 * count > size:  # a uniform choice of the others leaves a uniform choice
        left = np.ones(size, np.bool_)
        left[draw_distinct(size, count=size - count, entropy=entropy)] = False
        return np.flatnonzero(left)
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        numbers = draw_below(size, count=2 * (count - len(chosen)) + 8, entropy=entropy)
        chosen |= dict.fromkeys(numbers.tolist())
    return np.array(list(chosen)[:count], np.int64)


def distinct(table: pa.Table) -> pa.Table:
    """The distinct rows, in the order they first come."""
    if table.num_columns == 1:
        return pa.table({table.column_names[0]: pc.unique(table.column(0))})
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def read_pool(
    path: Path, *, url: str = "path", kind: str | None = None, keys: str | None = None
) -> Listed:
    """The distinct keys of a public file, cleaned like the log before they are counted.

    A line is a query, or query<TAB>url; urls are cut as `url` says, and queries become keys by the
    rules that `keys` names. The file is UTF-8, plain or
    compressed (.gz, .zst). `kind` names the table of the keys; by default the first line decides
    between queries and clicks.
    """
    check_url_level(url)
    if not path.is_file():
        raise InputError(f"there is no pool file {str(path)!r}")
    chunks: list[list[pa.Array]] = []
    row = 1
    for lines in lines_of(path):
        kind = kind or ("click" if "\t" in lines[0].as_py() else "query")
        level = url if kind == "click" else None
        # A keyword is a word of a key, not a key.
        rules = None if kind == "keyword" else keys
        chunks.append(_clean_lines(lines, path, row, level, len(KEYS[kind]), rules))
        row += len(lines)
    if kind is None or not chunks:
        raise InputError(f"{path.name} is empty: a pool has a key on each line")
    columns = [pa.chunked_array(list(parts), pa.string()) for parts in zip(*chunks, strict=True)]
    return Listed(table=pa.table(columns, list(KEYS[kind])))


def read_pools(
    path: Path, *, tables: Sequence[str], url: str, keys: str | None = None
) -> dict[str, Listed]:
    """The pool of each table from one file: query lines, or query<TAB>url lines for both tables.

    For pairs the lines are query<TAB>next query, for keywords one keyword each.
    """
    urls = has_tabs(path)
    pools = {}
    for table in tables:
        if (table in ("click", "pair")) > urls:
            raise InputError(
                f"{path.name} lists single queries; a pool for the {table} table has lines of "
                f"query<TAB>{KEYS.get(table, ('', 'url'))[-1]}. Leave {table} out of --tables, or give such a pool."
            )
        if table == "query" and urls:
            clicks = read_pool(path, url=url, keys=keys)
            pools[table] = Listed(table=clicks.table.select(["query"]))
        elif table == "click":
            pools[table] = read_pool(path, url=url, keys=keys)
        else:
            pools[table] = read_pool(path, kind=table, keys=keys)
    return pools


def has_tabs(path: Path) -> bool:
    """Whether the lines of a pool have two columns; its first line decides."""
    if not path.is_file():
        raise InputError(f"there is no pool file {str(path)!r}")
    return "\t" in next(lines_of(path), pa.array([""]))[0].as_py()


def lines_of(path: Path) -> Iterator[pa.Array]:
    """The lines of a file of UTF-8 text, plain or compressed, in large pieces."""
    from murmurlog.logs.formats import pieces

    compression = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
    rest, row = b"", 1
    for piece in pieces(path, compression, block=BLOCK):
        whole, feed, rest = (rest + piece).rpartition(b"\n")
        if feed:
            yield _split(whole, path, row)
            row += whole.count(b"\n") + 1
        if len(rest) > MOST_LINE:
            raise InputError(f"{path.name}, line {row} is too long for a line of a list")
    if rest:
        yield _split(rest, path, row)


def _split(block: bytes, path: Path, row: int) -> pa.Array:
    if row == 1:
        block = block.removeprefix(b"\xef\xbb\xbf")
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        at = row + block.count(b"\n", 0, error.start)
        raise InputError(f"{path.name}, line {at} is not UTF-8 text") from None
    lines = pc.split_pattern(pa.array([text], pa.string()), "\n").flatten()
    return pc.utf8_rtrim(lines, "\r") if "\r" in text else lines


def _clean_lines(
    lines: pa.Array, path: Path, row: int, url: str | None, columns: int, keys: str | None
) -> list[pa.Array]:
    """The key columns of lines, cleaned; raises for the first bad one."""
    tabs = pc.count_substring(lines, "\t")
    wrong = pc.not_equal(tabs, columns - 1)
    if pc.any(wrong).as_py():
        form = "a query" if columns == 1 else "query<TAB>url"
        raise InputError(
            f"{path.name}, line {row + pc.index(wrong, True).as_py()}: a line of this pool is "
            f"{form}, with {columns - 1 or 'no'} tab{'' if columns == 2 else 's'}"
        )
    fields = [lines]
    if columns == 2:
        parts = pc.split_pattern(lines, "\t").flatten()
        fields = [parts.take(pa.array(np.arange(i, len(parts), 2))) for i in (0, 1)]
    clean = [_keys(fields[0], keys)]
    if columns == 2:
        clean.append(_urls(fields[1], url) if url else _keys(fields[1], keys))
    for name, column in zip(("query", "url"), clean, strict=False):
        if column.null_count:
            at = row + pc.index(pc.is_null(column), True).as_py()
            raise InputError(f"{path.name}, line {at} has no readable {name}")
    return clean


def _keys(texts: pa.Array, keys: str | None) -> pa.Array:
    """The keys of texts; Python cleans only those that may not be keys yet."""
    odd = pc.match_substring_regex(texts, f"{changeable(keys)}|^ | $|^$")
    clean_key = cleaner(keys)
    clean = [clean_key(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(clean, pa.string()))


def _urls(texts: pa.Array, level: str) -> pa.Array:
    coded = texts.dictionary_encode()
    clean = [clean_url(text, level) for text in coded.dictionary.to_pylist()]
    return pa.array(clean, pa.string()).take(coded.indices)


def least_threshold(*, scale: float, size: int, fakes: float) -> int:
    """The least T >= 1 at which at most `fakes` of `size` keys that nobody holds pass on average.

    T >= b ln(N / (F (1 + a))): the chance of one is a^T / (1 + a).
    """
    check_fakes(fakes)
    over = math.log(size) - math.log(fakes) - math.log1p(math.exp(-1 / scale))
    return max(1, math.ceil(scale * over - 1e-9))


def check_fakes(fakes: float) -> None:
    """Raises unless `fakes` can be the expected number of published keys that nobody holds."""
    if not LEAST_FAKES <= fakes < math.inf:
        raise UsageError(
            f"the expected number of fakes must be positive, at least {LEAST_FAKES:g}, not {fakes!r}"
        )

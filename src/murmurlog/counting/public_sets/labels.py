"""Public labels for queries: a finite set, so that paths of labels need no delta.

Built in is `length`, the number of words of a query. A file can give others, as lines of
query<TAB>label; queries it does not list are "other", or get the label that their words suggest
(`words:FILE`, in `label_classifier`). It must not be derived from the log (A4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.canonical import cleaner
from murmurlog.errors import InputError

LENGTHS = ("1 word", "2 words", "3 words", "4 words", "5 words or more")
OTHER = "other"
BY_WORDS = "words:"  # before the name of a file: a classifier is learned from it


class Labels(Protocol):
    """A public function from queries to a finite set of labels."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every label there is."""

    def codes(self, queries: pa.Array) -> npt.NDArray[Any]:
        """The place of each query's label among the names."""


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How many words a query has."""

    @property
    def names(self) -> tuple[str, ...]:
        return LENGTHS

    def codes(self, queries: pa.Array) -> npt.NDArray[Any]:
        spaces = pc.count_substring(queries, " ").to_numpy(zero_copy_only=False)
        return np.asarray(np.minimum(spaces, len(LENGTHS) - 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelList:
    """The labels in a public file, "other" for all other queries."""

    table: pa.Table  # query, label

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self.table["label"].to_pylist(), OTHER}))

    @cached_property
    def _codes(self) -> npt.NDArray[Any]:
        """The place of each listed query's label, and last that of the others'."""
        place = {name: place for place, name in enumerate(self.names)}
        return np.array([place[name] for name in (*self.table["label"].to_pylist(), OTHER)])

    def codes(self, queries: pa.Array) -> npt.NDArray[Any]:
        queries_of_table = self.table["query"].combine_chunks().cast(queries.type)
        rows = pc.fill_null(pc.index_in(queries, value_set=queries_of_table), len(queries_of_table))
        return np.asarray(self._codes[rows.to_numpy(zero_copy_only=False)])


def read_labels(text: str, *, keys: str | None = None) -> Labels:
    """The built-in labels of this name, or those of a file, cleaned as queries are."""
    if text == "length":
        return Lengths()
    if text.startswith(BY_WORDS):
        from murmurlog.counting.public_sets.label_classifier import learn

        path = Path(text.removeprefix(BY_WORDS))
        return learn(_read_list(path, keys), name=path.name)
    return _read_list(Path(text), keys)


def _read_list(path: Path, keys: str | None) -> LabelList:
    if not path.is_file():
        raise InputError(
            f"--map takes length, a file of query<TAB>label lines, or words:FILE; no file {str(path)!r}"
        )
    labels: dict[str, str] = {}
    clean_key = cleaner(keys)
    try:
        for row, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
            if not line.strip():
                continue
            query, tab, label = line.rstrip("\r").partition("\t")
            clean, name = clean_key(query), clean_key(label)
            if not tab or clean is None or name is None:
                raise InputError(f"{path.name}, line {row}: a map has lines of query<TAB>label")
            if labels.setdefault(clean, name) != name:
                raise InputError(f"{path.name}, line {row}: {clean!r} has two labels")
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8 text") from None
    if not labels:
        raise InputError(f"{path.name} maps no query")
    queries, names = zip(*labels.items(), strict=True)
    return LabelList(table=pa.table({"query": list(queries), "label": list(names)}))

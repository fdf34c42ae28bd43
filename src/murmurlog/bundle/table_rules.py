"""Rules for every table of a bundle, whatever its mechanism; `load`, `serve` and `verify` check them.

Columns, number of rows, characters, unique keys, the canonical order. Arrow checks whole columns;
Python checks only distinct texts that are not ASCII.
"""

import unicodedata
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.canonical import canonical, changeable
from murmurlog.bundle.certificate import Certificate, TableClaim
from murmurlog.bundle.keys import ODD, VERSIONS, has_invisible, is_ignorable, normalise
from murmurlog.bundle.schema import (
    AT_LEAST,
    KEYS,
    LISTS,
    count_of,
    flatten_lists,
    is_reliable,
    keys_of,
    schema,
)

MOST_MARKS = 1000  # combining marks on one letter: sorting them takes quadratic time
# Control characters, line and paragraph separators, and characters that XML does not allow.
NOT_TEXT = r"[\x00-\x1f\x7f-\x9f\x{2028}\x{2029}\x{fffe}\x{ffff}]"
NOT_ASCII = r"[^\x00-\x7f]"
NOT_NORMALISED = ("url", "user")  # key columns with other rules
FOLDED = ("query", "next_query", "queries", "items")  # key columns of canonical keys


def stated_schema(certificate: Certificate, name: str) -> pa.Schema:
    """The columns of a table according to the certificate."""
    claim = certificate.tables[name]
    return schema(
        name,
        count=claim.count,
        by=certificate.by,
        parameters=claim.parameters,
        intervals=claim.meaning is not None,
    )


def table_fault(name: str, table: pa.Table, certificate: Certificate) -> str | None:
    """The first broken rule of a table; None if a release can have written it."""
    wanted, claim = stated_schema(certificate, name), certificate.tables[name]
    if not table.schema.equals(wanted):
        names = ", ".join(table.column_names)
        names = names if names.isprintable() else ascii(names)
        return f"has columns {names:.200}, not {', '.join(wanted.names)}, or other types"
    open_ended = [f"{claim.count}_high"] if claim.meaning == AT_LEAST else []
    full = [table[name] for name in table.column_names if name not in open_ended]
    if any(column.null_count for column in [*full, *_texts(table)]):
        return "has empty values"
    if table.num_rows != claim.rows:
        return f"has {table.num_rows} rows, not {claim.rows}"
    return (
        _characters(name, table, certificate)
        or _sets(name, table, certificate)
        or _keys(table, keys_of(name, certificate.by))
        or _reliability(table)
        or _intervals(table, claim)
    )


def _sets(name: str, table: pa.Table, certificate: Certificate) -> str | None:
    """A message unless every set has at most as many queries as the certificate states."""
    if name != "itemset" or not table.num_rows:
        return None
    most = certificate.text["set_size"]
    if most is None:
        return "states no size of its sets"
    if pc.max(pc.list_value_length(table["items"])).as_py() > most:
        return f"holds a set of more than {most} queries"
    return None


def _intervals(table: pa.Table, claim: TableClaim) -> str | None:
    """A message unless every count lies in its interval; None if there are no intervals."""
    if claim.meaning is None or claim.count is None or not table.num_rows:
        return None
    low, high = (table[f"{claim.count}_{end}"] for end in ("low", "high"))
    if claim.meaning == AT_LEAST and high.null_count < len(high):
        return "states an upper end for counts of bounded items"
    if pc.min(low).as_py() < 0:
        return "has an interval that begins below 0"
    count = table[claim.count]
    below = pc.less(pc.max_element_wise(count, 0), low)
    above = pc.fill_null(pc.greater(count, high), False)
    if pc.any(pc.or_(below, above)).as_py():
        return "has a count outside its interval"
    return None


def _texts(table: pa.Table) -> Iterator[pa.Array]:
    """The columns of texts; of lists, the texts in them."""
    for column in table.columns:
        texts = column.combine_chunks()
        if pa.types.is_list(texts.type):
            texts = texts.flatten()
        if pa.types.is_string(texts.type):
            yield texts


def _characters(name: str, table: pa.Table, certificate: Certificate) -> str | None:
    """A message unless every text is what cleaning can give and no list is empty."""
    by, version = certificate.by, VERSIONS.get(certificate.text["normaliser"])
    for key, texts in zip(keys_of(name, by), _texts(table), strict=True):
        if pc.any(pc.match_substring_regex(texts, NOT_TEXT)).as_py():
            return "holds control characters, which normalised text has not"
        odd = _filter(pc.unique(texts), NOT_ASCII).to_pylist()
        if any(len(text) > MOST_MARKS and marks(text) > MOST_MARKS for text in odd):
            return f"holds a text with more than {MOST_MARKS} marks on one letter"
        if by and key == by.column:
            public = pc.is_in(texts, value_set=pa.array(by.values, pa.string()))
            if not _all(public):
                return "holds values that are not declared public"
        elif version and key not in NOT_NORMALISED and not _all_normal(texts, odd, version):
            return f"holds a text in {key} that is not normalised"
        elif version and certificate.keys and key in FOLDED:
            candidates = _filter(pc.unique(texts), changeable(certificate.keys)).to_pylist()
            if any(canonical(text, version=version) != text for text in candidates):
                return f"holds a text in {key} that is not a key by the rules {certificate.keys}"
    if any(
        pc.any(pc.equal(pc.list_value_length(table[k]), 0)).as_py()
        for k in LISTS
        if k in KEYS[name]
    ):
        return "holds an empty list"
    return None


def _all(values: pa.Array) -> bool:
    """Whether all values are true; true for no values, where Arrow gives null."""
    return bool(pc.all(values, min_count=0).as_py())


def _filter(texts: pa.Array, pattern: str) -> pa.Array:
    """The texts in which a regular expression matches somewhere."""
    return texts.filter(pc.match_substring_regex(texts, pattern))


def _all_normal(texts: pa.Array, odd: list[str], version: int) -> bool:
    """Whether normalising leaves every text as it is; `odd` are the distinct ones beyond ASCII."""
    plain = texts.filter(pc.invert(pc.match_substring_regex(texts, NOT_ASCII)))
    spaces = pc.or_(pc.starts_with(plain, " "), pc.ends_with(plain, " "))
    wrong = pc.or_(pc.or_(spaces, pc.equal(plain, "")), pc.match_substring_regex(plain, ODD))
    return not pc.any(wrong).as_py() and all(_is_normal(text, version) for text in odd)


def _is_normal(text: str, version: int) -> bool:
    """Whether normalising leaves the text unchanged; for most texts without normalising it."""
    quick = (
        text.isprintable()
        and unicodedata.is_normalized("NFKC", text)
        and text.casefold() == text
        and "  " not in text
        and text == text.strip()
        and (version == 1 or not has_invisible(text))
    )
    return quick or normalise(text, version=version) == text


def marks(text: str) -> int:
    """The longest run of combining marks; characters that normalising removes do not end a run."""
    run = longest = 0
    for c in text:
        if unicodedata.combining(unicodedata.normalize("NFKD", c)[0]):
            run += 1
            longest = max(longest, run)
        elif unicodedata.category(c)[0] != "C" and not is_ignorable(c):
            run = 0
    return longest


def _keys(table: pa.Table, keys: tuple[str, ...]) -> str | None:
    """A message unless each key occurs once and the rows are in the order of `in_order`."""
    flat = flatten_lists(table.select(list(keys))).combine_chunks()
    if flat.group_by(list(keys)).aggregate([]).num_rows != table.num_rows:
        return "has rows in which a key repeats"
    count = count_of(table)
    # For each row and the next, from the last key to the first: whether they are in order.
    ordered = None
    for column in (flat[key] for key in reversed(keys)):
        row, following = column[:-1], column[1:]
        less = pc.less(row, following)
        equal = pc.equal(row, following)
        ordered = less if ordered is None else pc.or_(less, pc.and_(equal, ordered))
    if count is not None:
        row, following = table[count][:-1], table[count][1:]
        equal = pc.equal(row, following)
        ordered = pc.or_(pc.greater(row, following), pc.and_(equal, ordered))
    return None if _all(ordered) else "has rows that are not in the canonical order"


def _reliability(table: pa.Table) -> str | None:
    count = count_of(table)
    if count is None or not table.num_rows:
        return None
    reliable = is_reliable(table[count], table[f"{count}_stderr"])
    if not reliable.equals(table["reliable"]):
        return "has counts for which `reliable` is not what error and count say"
    return None

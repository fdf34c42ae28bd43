"""The rules by which rows of a source become rows of a log, and how their text is cleaned.

A rule is a predicate on the facts of rows, and rules apply in order. Every rule looks at one record at a
time (A5). Text is cleaned in Python where Arrow cannot rule out that it changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from string import ascii_uppercase
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.canonical import changeable, cleaner
from murmurlog.bundle.keys import PLAIN_URL, clean_url
from murmurlog.logs.screen import Screen, matcher
from murmurlog.logs.text_keys import Bytes, blocks, pad

Integers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

UNREADABLE_TIME = "unreadable time"
UNREADABLE_URL = "unreadable url"
MOST_DOTS = 8  # of the host of a plain url


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """Facts about rows whose text is clean, as masks."""

    count: int
    present: Mapping[str, Mask]  # whether a row has a readable user, query, time, url
    stated: Mapping[
        str, Mask
    ]  # whether the source has a time or a url for the row, readable or not
    time: Integers  # microseconds; of a row without a time it means nothing

    def lacks(self, name: str) -> Mask:
        return ~self.present[name]

    def states(self, name: str) -> Mask:
        return self.stated[name]

    def before(self, moment: datetime | None) -> Mask:
        assert moment is not None
        return np.asarray(self.time < np.datetime64(moment, "us").astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """How rows of a source become rows of a log, and how many did not, by reason."""

    timed: bool = True  # whether the source has a column of times
    url: str | None = None  # how much of a url is kept; None: no urls
    no_url: tuple[str, ...] = ()  # texts that stand for none
    ranked: bool = True  # whether the source has a column of ranks of its urls
    keys: str | None = None  # the rules for canonical keys, by their name in a certificate
    keep: tuple[str, ...] = ()  # the names of further columns: k0, k1, .. of the source's rows
    since: datetime | None = None
    until: datetime | None = None
    screen: Screen | None = None
    deny: frozenset[str] = frozenset()

    @property
    def cleaners(self) -> dict[str, Callable[[str], str | None]]:
        """The functions that clean the distinct strings of a column; they return None for empty text."""
        urls = {} if self.url is None else {"url": partial(clean_url, level=self.url)}
        return {"query": cleaner(self.keys), **urls}

    @property
    def screens(self) -> bool:
        """Whether some queries are dropped because of their content."""
        return bool(self.screen or self.deny)

    def suspects(self, data: Bytes, start: Integers, length: Integers) -> Mask:
        """Which queries are not clean as they are, or may have a reason to be dropped; no other is or has.

        Decided by single bytes, several times faster than by an expression.
        """
        needs = self.screen.needs if self.screen else ""
        if self.keys is not None or self.deny or needs is None:
            return np.ones(len(start), bool)
        suspect = np.empty(len(start), bool)
        for block in blocks(len(start)):
            suspect[block] = _odd_queries(data, start[block], length[block], needs)
        return suspect

    def find_suspects(self, queries: pa.Array) -> pa.Array:
        """The places of the clean queries that may have a reason to be dropped; no other has one."""
        if self.deny or not self.screen:
            return pc.indices_nonzero(pc.is_valid(queries))
        return self.screen.suspects(queries)

    @cached_property
    def reasons(self) -> Callable[[str], list[str]]:
        """The first reason to drop a clean query, if there is one."""
        is_denied, screen = matcher(self.deny, self.keys), self.screen

        def first_reason(query: str) -> list[str]:
            if is_denied(query):
                return ["denied"]
            return [f"screened: {name}" for name in (screen.hits(query) if screen else [])][:1]

        return first_reason


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Rows to drop and to count. A row is counted by the first rule that applies."""

    reason: str | None  # None: the row is excluded but not broken, so it is not counted
    applies: Callable[[RowFacts, Cleaning], Mask]
    when: Callable[[Cleaning], object] = lambda _: True
    drops: Callable[[Cleaning], object] = lambda _: True  # else the row is counted and stays


def _has_period(cleaning: Cleaning) -> bool:
    return bool(cleaning.since or cleaning.until)


RULES = (
    Rule(
        reason=None,
        when=lambda cleaning: cleaning.since,
        applies=lambda row, cleaning: ~row.lacks("time") & row.before(cleaning.since),
    ),
    Rule(
        reason=None,
        when=lambda cleaning: cleaning.until,
        applies=lambda row, cleaning: ~row.lacks("time") & ~row.before(cleaning.until),
    ),
    Rule(reason="no user", applies=lambda row, _: row.lacks("user")),
    Rule(reason="no query", applies=lambda row, _: row.lacks("query")),
    Rule(
        reason="no time",
        when=_has_period,
        applies=lambda row, _: ~row.states("time"),
    ),
    # Without a period the row stays, as one without a time.
    Rule(
        reason=UNREADABLE_TIME,
        applies=lambda row, _: row.states("time") & row.lacks("time"),
        drops=_has_period,
    ),
    # The row stays, as a query without a click.
    Rule(
        reason=UNREADABLE_URL,
        applies=lambda row, _: row.states("url") & row.lacks("url"),
        drops=lambda _: False,
    ),
)


def byte_ranges(characters: str) -> list[tuple[int, int]]:
    """The ASCII characters among some as ranges of bytes, the ends included."""
    codes = sorted({ord(c) for c in characters if c.isascii()})
    starts = [code for code in codes if code - 1 not in codes]
    ends = [code for code in codes if code + 1 not in codes]
    return list(zip(starts, ends, strict=True))


def apply_rules(facts: RowFacts, cleaning: Cleaning) -> tuple[Mask, dict[str, int]]:
    """Which rows stay, and the number of rows by reason to call them broken."""
    stays, broken = np.ones(facts.count, bool), {}
    for rule in RULES:
        if rule.when(cleaning):
            applies = rule.applies(facts, cleaning)
            if rule.reason is not None:
                broken[rule.reason] = int((stays & applies).sum())
            if rule.drops(cleaning):
                stays = stays & ~applies
    return stays, broken


def changed_queries(texts: pa.Array, cleaning: Cleaning) -> tuple[Integers, pa.Array]:
    """The places of the queries that cleaning changes, and what they become; null for no query."""
    # One pass finds the texts that may change.
    checked = pc.match_substring_regex(texts, changeable(cleaning.keys))
    for other in (pc.starts_with(texts, " "), pc.ends_with(texts, " "), pc.equal(texts, "")):
        checked = pc.or_(checked, other)
    places = pc.indices_nonzero(checked)
    raw, clean_key = texts.take(places).to_pylist(), cleaning.cleaners["query"]
    clean = [clean_key(text) for text in raw]
    differs = np.array([a != b for a, b in zip(raw, clean, strict=True)], bool)
    return places.to_numpy()[differs], pa.array(clean, texts.type).filter(pa.array(differs))


def clean_queries(texts: pa.Array, cleaning: Cleaning) -> pa.Array:
    """The clean queries; null for none."""
    return put_texts(texts, *changed_queries(texts, cleaning))


def put_texts(texts: pa.Array, places: Integers, others: pa.Array) -> pa.Array:
    """The texts with others at some places."""
    changed = np.zeros(len(texts), bool)
    changed[places] = True
    return pc.replace_with_mask(texts, pa.array(changed), others)


def column_cleaners(cleaning: Cleaning) -> list[Callable[[pa.Array], pa.Array]]:
    """The functions that clean the texts of each column: queries, urls, kept values."""
    urls = [] if cleaning.url is None else [partial(clean_urls, cleaning=cleaning)]
    return [partial(clean_queries, cleaning=cleaning), *urls, *(_identity for _ in cleaning.keep)]


def _identity(texts: pa.Array) -> pa.Array:
    return texts


def screen_texts(queries: pa.Array, cleaning: Cleaning) -> dict[str, Mask]:
    """A mask of the clean queries to drop, for each reason."""
    reasons: dict[str, Mask] = {}
    if cleaning.screens:
        # Python looks at the few texts that Arrow cannot rule out.
        places = cleaning.find_suspects(queries)
        for place, text in zip(places.to_pylist(), queries.take(places).to_pylist(), strict=True):
            for reason in cleaning.reasons(text):
                reasons.setdefault(reason, np.zeros(len(queries), bool))[place] = True
    return dict(sorted(reasons.items()))


def _odd_queries(data: Bytes, start: Integers, length: Integers, needs: str) -> Mask:
    """Which queries have other bytes than clean ones (`keys.ODD`) or one of the characters, or spaces at an end."""
    data, start = pad(data, start, length)
    odd = (data - np.uint8(0x20)) > 0x7E - 0x20
    for low, high in byte_ranges(ascii_uppercase + needs):
        odd |= (data - np.uint8(low)) <= high - low
    space = data == 0x20
    odd[:-1] |= space[:-1] & space[1:]
    suspect = space[start] | space[start + length - 1] | (length == 0)
    suspect[np.searchsorted(start, np.flatnonzero(odd[:-8]), side="right") - 1] = True
    return np.asarray(suspect)


def find_plain_urls(
    data: Bytes, start: Integers, length: Integers, *, host_only: bool
) -> tuple[Mask, Integers, Integers]:
    """Which urls have the form of `keys.PLAIN_URL` without query string and fragment, and where their key is.

    No url is empty. The key is a part of the url, so that its bytes are not copied.
    """
    plain, first, size = np.empty(len(start), bool), start.copy(), length.copy()
    for block in blocks(len(start)):
        plain[block], first[block], size[block] = _find_urls(
            data, start[block], length[block], host_only=host_only
        )
    return plain, first, size


def _find_urls(
    data: Bytes, start: Integers, length: Integers, *, host_only: bool
) -> tuple[Mask, Integers, Integers]:
    """What `find_plain_urls` returns, for one block of urls."""
    place, (data, start) = start, pad(data, start, length)
    end = start + length
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))[start]
    http = (words & np.uint64((1 << 56) - 1)) == int.from_bytes(b"http://", "little")
    https = words == int.from_bytes(b"https://", "little")
    host = start + 7 + https
    plain = (http | https) & (host < end)
    host[~plain] = start[~plain]
    odd = (data - np.uint8(0x21)) > 0x7E - 0x21
    odd |= (data == ord("#")) | (data == ord("?"))
    plain[np.searchsorted(start, np.flatnonzero(odd[:-8]), side="right") - 1] = False
    # The host: labels of letters, digits and hyphens, joined by dots, a hyphen at no end of a label.
    dot = data == ord(".")
    mark = dot | (data == ord("-"))
    inside = (mark ^ dot) | ((data - np.uint8(ord("a"))) < 26) | ((data - np.uint8(ord("0"))) < 10)
    ends = np.append(np.flatnonzero(~inside), len(data))  # of labels
    label = np.searchsorted(ends, host)
    host_end = np.minimum(ends[label], end)
    dots = np.zeros(len(host), np.int64)
    for _ in range(MOST_DOTS):
        if not (joined := dot[host_end] & (host_end < end)).any():
            break
        dots += joined
        host_end = np.minimum(ends[label + dots], end)
    plain &= ~dot[host_end] | (host_end == end)
    wrong = np.append(np.flatnonzero(mark[:-1] & mark[1:] & (dot[:-1] | dot[1:])), len(data))
    plain &= (host_end > host) & ((host_end == end) | (data[host_end] == ord("/")))
    plain &= ~mark[host] & ~mark[host_end - 1] & (dots > 0)
    plain &= wrong[np.searchsorted(wrong, host)] >= host_end - 1
    www = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))[host]
    host += 4 * ((www == int.from_bytes(b"www.", "little")) & (dots > 1))
    if host_only:
        end = host_end
    while (slash := plain & (end > host_end) & (data[end - 1] == ord("/"))).any():
        end = end - slash
    return plain, host + (place - start), np.where(plain, end - host, 0)


def clean_urls(urls: pa.Array, cleaning: Cleaning) -> pa.Array:
    """The urls as keys; null where one cannot be read."""
    cleaned, clean = _clean_plain_urls(urls, cleaning), cleaning.cleaners["url"]
    if cleaned.null_count:
        left = pc.is_null(cleaned)
        rest = [clean(text) for text in urls.filter(left).to_pylist()]
        cleaned = pc.replace_with_mask(cleaned, left, pa.array(rest, cleaned.type))
    return cleaned


def _clean_plain_urls(urls: pa.Array, cleaning: Cleaning) -> pa.Array:
    """The urls of the most common form as `clean_url` cleans them; null for those that Python has to clean."""
    if cleaning.url == "id":
        return pa.nulls(len(urls), urls.type)
    parts = pc.extract_regex(urls, rf"\A{PLAIN_URL}\z")  # null where it does not match
    names = {"host": ["host"], "path": ["host", "path"], "full": ["host", "path", "query"]}
    columns = {name: pc.struct_field(parts, name) for name in names[cleaning.url or "host"]}
    if "path" in columns:
        columns["path"] = pc.ascii_rtrim(columns["path"], "/")
    return pc.binary_join_element_wise(*columns.values(), pa.scalar("", urls.type))

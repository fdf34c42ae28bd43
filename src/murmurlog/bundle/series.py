"""`murmurlog.load_series`: several releases as one table over time, and sums over their periods.

Everything here is computed from published values, so it costs no privacy. A sum over periods adds the
numbers of users of each period: somebody who asked in two of them counts twice. It is no number of
distinct users.

**Errors of sums.** Every release draws its own noise, so the variances of the noise add up. The other
errors of a count in `users in the log` come from a model (docs/explanation/counts.md) that may be wrong
in the same direction in every period, so they are added as they are: those of a key over its periods,
the error that all rows of a table share over periods and keys. The noise of a row is known to be at
least sigma; what lies above is treated as an error of the model. So a standard error is never too small
because of the way it is added up.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.bundle import estimates
from murmurlog.bundle.certificate import Certificate, TableClaim
from murmurlog.bundle.compare import joined_keys
from murmurlog.bundle.estimates import Estimate
from murmurlog.bundle.files import CERTIFICATE
from murmurlog.bundle.read import Release, load
from murmurlog.bundle.schema import AT_LEAST, IN_LOG, Z95, count_of, is_reliable, keys_of
from murmurlog.errors import BundleError, UsageError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PLACE = {  # the columns before the keys
    "number": pa.int64(),  # of the release in the series, from 1
    "release": pa.string(),
    "period_start": pa.timestamp("us"),
    "period_end": pa.timestamp("us"),
}
DESCRIPTIONS = {
    "number": "the place of the release in the series, from 1",
    "release": "the id of the release",
    "period_start": "the first moment of the period that was counted, UTC; empty if not stated",
    "period_end": "the moment at which the period ends, not part of it; empty if not stated",
}
_MONTH = re.compile(r"(\d{4})-(\d{2})")


class Period(NamedTuple):
    """What a release counted: from `start` on and before `end`; None where it is not stated."""

    start: datetime | None = None
    end: datetime | None = None


class _Rows(NamedTuple):
    """The rows with counts of a table in all releases, one after the other."""

    key: Ints  # the same number for the same key
    values: Floats
    noise: Floats  # independent between releases, a standard deviation
    model: Floats  # what else is a row's own error
    common: Floats  # the part of the error that all rows of a release share
    too_high: Floats
    too_low: Floats
    selection: Floats  # bound on the upward bias of a row that was chosen for its large count


@dataclass(frozen=True, eq=False)
class Series:
    """Releases in the order of time, with the period that each of them counted."""

    releases: tuple[Release, ...]
    periods: tuple[Period, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of all tables that any release has."""
        return tuple(dict.fromkeys(n for r in self.releases for n in r.certificate.tables))

    def __len__(self) -> int:
        return len(self.releases)

    def __repr__(self) -> str:
        return f"Series({len(self)} releases; tables: {', '.join(self.tables)})"

    def meaning(self, table: str = "query") -> str | None:
        """What all counts of a table are about; "at least" if those of any release are."""
        meanings = {claim.meaning for _, claim in self._claims(table) if claim.count}
        return meanings.pop() if len(meanings) == 1 else AT_LEAST if meanings else None

    def table(self, name: str = "query") -> pa.Table:
        """One row for each release and key: number, release, period, keys, counts as published."""
        return pa.concat_tables([self._part(place, name) for place, _ in self._claims(name)])

    def sums(self, name: str = "query", where: estimates.Where = None) -> pa.Table:
        """The sum of the counts of each key over the releases that have it, the largest first.

        A sum of numbers of users by period, not a number of distinct users. `releases` says how many
        releases have the key: where it has no row its count is not known, and not in the sum.
        """
        table, rows = self._rows_with_counts(name)
        chosen = self._match(name, table, where)
        code, first = _renumber(rows.key, chosen)

        def add(values: Floats) -> Floats:
            return np.bincount(code, values[chosen], len(first)).astype(np.float64)

        users = add(rows.values)
        variance = add(rows.noise**2) + add(rows.model) ** 2 + add(rows.common) ** 2
        error = np.sqrt(variance)
        spread = estimates.quantile(estimates.CONFIDENCE, self._excess(name)) * error
        count = self._count(name)
        sums = table.select(list(self._keys(name))).take(pa.array(first))
        ends = (
            np.floor(np.maximum(0.0, users - spread - add(rows.too_high + rows.selection))),
            np.ceil(users + spread + add(rows.too_low)),
        )
        columns = {
            "releases": pa.array(np.bincount(code, minlength=len(first))),
            **_interval_columns(count, users, *ends, bounded=self.meaning(name) == AT_LEAST),
            f"{count}_stderr": pa.array(error),
        }
        columns["reliable"] = is_reliable(columns[count], columns[f"{count}_stderr"])
        for column, values in columns.items():
            sums = sums.append_column(column, values)
        keys = [(k, "ascending") for k in self._keys(name) if pa.types.is_string(sums[k].type)]
        return sums.sort_by([(count, "descending"), *keys])

    def total(
        self,
        name: str = "query",
        where: estimates.Where = None,
        *,
        confidence: float = estimates.CONFIDENCE,
    ) -> Estimate:
        """The sum of the counts of some keys over all releases, with an interval; see `sums`."""
        table, rows = self._rows_with_counts(name)
        chosen = self._match(name, table, where)
        code, first = _renumber(rows.key, chosen)
        model = np.bincount(code, rows.model[chosen], len(first))
        value = float(rows.values[chosen].sum())
        error = math.sqrt(
            float((rows.noise[chosen] ** 2).sum())
            + float((model**2).sum())
            + float(rows.common[chosen].sum()) ** 2
        )
        spread = estimates.quantile(confidence, self._excess(name)) * error
        meaning, unit = self.meaning(name), self.releases[0].guarantee.unit
        count = self._count(name)
        return Estimate(
            value=value,
            low=max(0.0, value - spread - float(rows.too_high[chosen].sum())),
            high=math.inf
            if meaning == AT_LEAST
            else value + spread + float(rows.too_low[chosen].sum()),
            stderr=error,
            confidence=confidence,
            rows=int(chosen.sum()),
            meaning=meaning,
            of=f"{unit}s" if count == "users" else count,
        )

    def _claims(self, name: str) -> list[tuple[int, TableClaim]]:
        """The place of each release that has a table, and what it claims about it."""
        claims = [
            (place, release.certificate.tables[name])
            for place, release in enumerate(self.releases)
            if name in release.certificate.tables
        ]
        if not claims:
            raise UsageError(
                f"no release has a table {name!r:.60}: they have {', '.join(self.tables)}"
            )
        if name == "log":
            raise UsageError(
                "a log of invented users has no counts of people: load each release by itself"
            )
        if len({claim.count for _, claim in claims if claim.count}) > 1:
            raise UsageError(
                f"some releases count users in {name} and others rows: load them apart"
            )
        return claims

    def _keys(self, name: str) -> tuple[str, ...]:
        return keys_of(name, self.releases[0].certificate.by)

    def _match(self, name: str, table: pa.Table, where: estimates.Where) -> npt.NDArray[np.bool_]:
        """Which rows match; a pattern or a list of texts is for the first key column."""
        if isinstance(where, str | list | tuple | set | frozenset):
            where = {self._keys(name)[0]: where}
        return estimates.match_rows(table, where)

    def _count(self, name: str) -> str:
        """What the counts of a table are of: users or rows."""
        return next((claim.count for _, claim in self._claims(name) if claim.count), "users")

    def _part(self, place: int, name: str) -> pa.Table:
        """The rows of one release."""
        release, period = self.releases[place], self.periods[place]
        table, claim = release.tables[name], release.certificate.tables[name]
        size, count = table.num_rows, self._count(name)
        release_values = (place + 1, release.certificate.release_id, *period)
        columns = {
            column: pa.array([value] * size, kind)
            for (column, kind), value in zip(PLACE.items(), release_values, strict=True)
        }
        columns |= {key: table[key] for key in self._keys(name)}
        ends = estimates.published_intervals(name, table, claim)
        if ends is None:
            whole = dict.fromkeys((count, f"{count}_low", f"{count}_high"), pa.int64())
            empty = {**whole, f"{count}_stderr": pa.float64(), "reliable": pa.bool_()}
            return pa.table(columns | {n: pa.nulls(size, kind) for n, kind in empty.items()})
        columns |= _interval_columns(
            count, table[count].to_numpy(), np.floor(ends[0]), np.ceil(ends[1])
        )
        columns |= {n: table[n] for n in (f"{count}_stderr", "reliable")}
        return pa.table(columns)

    def _excess(self, name: str) -> float:
        """The largest excess kurtosis of a draw: wide enough for every sum."""
        laws = (str(claim.parameters.get("noise")) for _, claim in self._claims(name))
        return max(estimates.EXCESS.get(law, 0.0) for law in laws)

    def _rows_with_counts(self, name: str) -> tuple[pa.Table, _Rows]:
        """The rows with counts, and their errors; raises where sums would count a period twice."""
        _check_apart(self.periods)
        places = [place for place, claim in self._claims(name) if claim.count]
        if not places:
            raise UsageError(f"the table {name} has no counts: there is nothing to add up")
        table = pa.concat_tables([self._part(place, name) for place in places])
        key = joined_keys(table, self._keys(name)).dictionary_encode().indices.to_numpy()
        errors = [_errors(self.releases[place], name) for place in places]
        columns = (np.concatenate(column) for column in zip(*errors, strict=True))
        return table, _Rows(key.astype(np.int64), *columns)


def load_series(
    bundles: str | Path | Iterable[str | Path | Release],
    *,
    periods: Sequence[str | tuple[Any, Any]] | None = None,
) -> Series:
    """Loads several bundles as one series: a list of them, or a folder that holds their folders.

    The order is that of the starts or ends of periods if all certificates state one, else as given; in a folder,
    that of the days of publication, then of the names. `periods` states the period of each, in this
    order: "2026-01" or "2026-01-31", or a pair of its start and the end that is not part of it.
    """
    if isinstance(bundles, str | Path):
        releases = list(_load_folder(Path(bundles)))
    else:
        releases = [item if isinstance(item, Release) else load(item) for item in bundles]
    if not releases:
        raise UsageError("a series needs at least one bundle")
    _check_alike(releases)
    if periods is None:
        spans = [stated_period(release.certificate) for release in releases]
        # The first period of a log often has no stated start.
        for ends in ([span.start for span in spans], [span.end for span in spans]):
            moments = [end for end in ends if end is not None]
            if len(moments) == len(spans):
                order = sorted(range(len(spans)), key=moments.__getitem__)
                releases, spans = [releases[n] for n in order], [spans[n] for n in order]
                break
    else:
        if len(periods) != len(releases):
            raise UsageError(
                f"{len(releases)} bundles have {len(periods)} periods: give one for each"
            )
        spans = [read_period(period) for period in periods]
    return Series(tuple(releases), tuple(spans))


def stated_period(certificate: Certificate) -> Period:
    """The period whose rows a release counted, as its certificate states it."""
    text = certificate.text
    start = text.get("count_from")  # counts of fewer rows than keys were chosen from
    if start in (None, "all"):
        start = text.get("since")
    return Period(_read_time(start), _read_time(text.get("until")))


def read_period(period: str | tuple[Any, Any]) -> Period:
    """A period: a month, a day, or a pair of start and end."""
    if not isinstance(period, str):
        start, end = (
            value if isinstance(value, datetime) else _read_time(value) for value in period
        )
        if start and end and not start < end:
            raise UsageError(f"a period ends after its start, unlike {period!r:.80}")
        return Period(start, end)
    if (match := _MONTH.fullmatch(period)) and 1 <= int(match[2]) <= 12:
        year, month = int(match[1]), int(match[2])
        return Period(datetime(year, month, 1), datetime(year + month // 12, month % 12 + 1, 1))
    if len(period) != len("2026-01-31"):
        raise UsageError(f"{period!r:.60} is no period: write 2026-01, 2026-01-31 or (start, end)")
    start = _read_time(period)
    assert start is not None
    return Period(start, start + timedelta(days=1))


def _read_time(text: Any) -> datetime | None:
    """The moment that a text states, UTC; None for None."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise UsageError(
            f"{str(text)!r:.60} is not a date or time: write 2026-01-31 or 2026-01-31T18:00:00"
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _load_folder(root: Path) -> Iterator[Release]:
    """The bundles in a folder, by the day of their publication, then by name."""
    if not root.is_dir():
        raise UsageError(f"{str(root)!r} is no folder of bundles")
    folders = sorted(path for path in root.iterdir() if (path / CERTIFICATE).is_file())
    if not folders:
        fault = "is one bundle" if (root / CERTIFICATE).is_file() else "holds no bundle"
        raise BundleError(
            f"{str(root)!r} {fault}: name the folder that holds the folders of the bundles, or list them"
        )
    yield from sorted(map(load, folders), key=lambda release: release.certificate.published)


def _check_alike(releases: Sequence[Release]) -> None:
    """Raises unless one key is the same thing, and one count of the same unit, in all releases."""
    first = releases[0].certificate
    seen: dict[str, Path] = {}
    for release in releases:
        c = release.certificate
        if c.release_id in seen:
            raise UsageError(f"{seen[c.release_id]} and {release.path} are the same release")
        seen[c.release_id] = release.path
        for what, value, expected in (
            ("unit of privacy", c.guarantee.unit, first.guarantee.unit),
            ("--by", c.by, first.by),
            ("--keys", c.keys, first.keys),
        ):
            if value != expected:
                raise UsageError(
                    f"{releases[0].path} and {release.path} differ in their {what}, so their rows are not "
                    "the same things: load them apart"
                )


def _check_apart(periods: Sequence[Period]) -> None:
    """Raises if two stated periods overlap; one without a start begins with the log."""
    whole = sorted((p.start or datetime.min, p.end) for p in periods if p.end)
    for (_, end), (start, _) in zip(whole, whole[1:], strict=False):
        if start < end:
            raise UsageError(
                f"two periods overlap: one ends on {end:%Y-%m-%d %H:%M} and the next one starts before. A sum "
                "would count rows twice. Load releases of separate periods, or state them with periods=..."
            )


def _errors(release: Release, name: str) -> tuple[Floats, ...]:
    """The columns of `_Rows` after the key, of one release."""
    claim, table = release.certificate.tables[name], release.tables[name]
    counts = estimates.counts(name, table, claim)
    noise = counts.stderr  # of bounded counts there is no other error
    selection = np.zeros(len(noise))
    if claim.meaning == IN_LOG:
        scale, d2 = claim.parameters.get("count_scale"), (claim.counting or {}).get("d2")
        sigma = float(scale) * math.sqrt(float(d2)) if scale and d2 else 0.0
        noise = np.minimum(sigma, counts.stderr)
        # What the published interval allows for rows that are chosen because they are large.
        low = table[f"{count_of(table)}_low"].to_numpy()
        margin = np.where(low > 0, counts.values - Z95 * counts.errors - low, counts.errors)
        selection = np.clip(margin, 0.0, counts.errors)
    return (
        counts.values,
        noise,
        np.sqrt(np.maximum(counts.stderr**2 - noise**2, 0.0)),
        counts.common * np.maximum(counts.values, 1.0),
        counts.too_high,
        counts.too_low,
        selection,
    )


def _renumber(key: Ints, chosen: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The keys of chosen rows as 0, 1, ..., and a row of each."""
    rows = np.flatnonzero(chosen)
    _, first, code = np.unique(key[rows], return_index=True, return_inverse=True)
    return code, rows[first]


def _interval_columns(
    name: str, values: Floats, low: Floats, high: Floats, *, bounded: bool = False
) -> dict[str, pa.Array]:
    """Counts with the ends of their intervals as whole numbers; no upper end if it is infinite."""
    no_end = np.isinf(high) | bounded
    return {
        name: pa.array(np.rint(values).astype(np.int64)),
        f"{name}_low": pa.array(low.astype(np.int64)),
        f"{name}_high": pa.array(np.where(no_end, 0.0, high).astype(np.int64), mask=no_end),
    }

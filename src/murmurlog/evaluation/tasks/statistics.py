"""Statistics of a release against the log it was made from (ZEALOUS 6 to 7.1, Hong 6).

Keywords, queries, pairs and clicks, each as far as both have them. Nothing is held out: the tables
of a system are compared with exact ones of the same users. The measures are in `count_errors`; here
tables are matched, measures are named, and users are resampled for intervals.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.derived_tables import weights
from murmurlog.bundle.schema import KEYS, SEPARATOR, count_of
from murmurlog.evaluation import count_errors as measures
from murmurlog.evaluation.count_errors import Flags
from murmurlog.evaluation.ground_truth import Holders, Truth
from murmurlog.evaluation.scores import Figure, Floats, Ints, Scoring, mean
from murmurlog.evaluation.tasks.protocol import Settings, Tables, complete, lacking

KINDS = ("keyword", "query", "pair", "click")
CURVE = (10, 50, 100, 500, 1_000, 5_000, 10_000)  # j of the top-j; never more than the log has
FREQUENCIES = (10, 50, 100)  # tau of the inaccuracy
SLACK = 5  # its slack is tau / 5
SUPPORTS = (100, 250, 500, 750, 1_000, 10_000)  # Hong's 1/100 to 1/1000, and one for large logs
BINS = 10  # of the difference ratios
RESAMPLES = 50
LEVEL = 0.95
DISTANCES = {
    "L1": measures.average_l1,
    "KL": measures.divergence,
    "TV": measures.total_variation,
    "RMS": measures.root_mean_square,
}


@dataclass(frozen=True, kw_only=True)
class MatchedTable:
    """A published table beside the exact one, in the order of the exact one."""

    true: Floats  # users, or rows where the release counts rows
    users: Floats
    rows: Floats
    published: Flags
    counts: Floats  # never below 0
    noisy: Floats  # the published counts, those of false items included; may be negative
    false: Floats  # published counts of what nobody has, never below 0
    count: str | None  # what the release counts; None: a set of items without counts


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """All measures of every table that both the system and the log have."""
    all_tables = complete(tables)
    kinds = [
        kind
        for kind in KINDS
        if kind in all_tables and kind in truth.tables and truth.tables[kind].num_rows
    ]
    if not kinds:
        raise lacking(tables, *KINDS)
    figures = Scoring()
    for kind in kinds:
        table = match_tables(all_tables[kind], truth.tables[kind], kind)
        figures += _volumes(kind, table, truth.holders[kind])
        figures += _curves(kind, table, truth.holders[kind])
        figures += _counts(kind, table)
        figures += _inaccuracies(kind, table)
        if kind == "click":
            if "log" in tables and "rows" in all_tables[kind].column_names:
                # Hong's counts c_ij and x_ij are of clicks, not of users.
                by_clicks = all_tables[kind].drop_columns("users")
                table = match_tables(by_clicks, truth.tables[kind], kind)
                size = float(table.counts.sum() + table.false.sum())
                figures.append(
                    Figure(measure="click output size", value=size, n=by_clicks.num_rows)
                )
            figures += _pairs(table, truth.tables[kind])
    return figures


def match_tables(table: pa.Table, exact: pa.Table, kind: str) -> MatchedTable:
    """The counts of a published table at the places of the exact one.

    A table split by a further column is added up. In one without counts all items weigh the same.
    """
    keys, exact_keys = _join_keys(table, kind), _join_keys(exact, kind)
    place = pc.fill_null(pc.index_in(keys, value_set=exact_keys), -1).to_numpy().astype(np.int64)
    count = count_of(table)
    counts, inside = weights(table), place >= 0
    noisy = counts if count is None else table[count].to_numpy().astype(np.float64)
    size = exact.num_rows
    users, rows = (exact[name].to_numpy().astype(np.float64) for name in ("users", "rows"))
    extra = keys.filter(pa.array(~inside)).dictionary_encode().indices.to_numpy().astype(np.int64)
    return MatchedTable(
        true=rows if count == "rows" else users,
        users=users,
        rows=rows,
        published=np.bincount(place[inside], minlength=size) > 0,
        counts=_add_up(place[inside], counts[inside], size),
        noisy=noisy,
        false=_add_up(extra, counts[~inside], 0),
        count=count,
    )


def _join_keys(table: pa.Table, kind: str) -> pa.Array:
    """The key of each row as one text."""
    columns = [table[name].cast(pa.large_string()) for name in KEYS[kind]]
    text = pc.binary_join_element_wise(*columns, pa.scalar(SEPARATOR, pa.large_string()))
    return text.combine_chunks()


def _add_up(place: Ints, values: Floats, size: int) -> Floats:
    """The sum of the values at each place."""
    return np.bincount(place, weights=values, minlength=size).astype(np.float64, copy=False)


def _volumes(kind: str, table: MatchedTable, holders: Holders) -> list[Figure]:
    """How many of the items, and of what people did, are published."""
    items, published = len(table.true), table.published
    size = int(published.sum()) + len(table.false)
    items_per_user = np.bincount(holders.user, minlength=holders.users).astype(np.float64)
    figures = [
        Figure(measure=f"{kind} distinct", value=float(size), n=items),
        Figure(measure=f"{kind} distinct kept", value=measures.coverage(published), n=items),
        Figure(
            measure=f"{kind} distinct false", value=measures.share(len(table.false), size), n=size
        ),
        # A mean over (user, item) that the log holds: is the item published?
        mean(f"{kind} volume kept (users)", published[holders.item].astype(float), holders.user),
        Figure(
            measure=f"{kind} volume kept (rows)",
            value=measures.volume(table.rows, published),
            n=int(table.rows.sum()),
        ),
        mean(f"{kind} items per user", items_per_user, np.arange(holders.users)),
    ]
    if table.count is not None:
        total = float(table.counts.sum() + table.false.sum())
        figures.append(Figure(measure=f"{kind} total", value=total, n=size))
    return figures


def _curves(kind: str, table: MatchedTable, holders: Holders) -> list[Figure]:
    """Coverage and distances of the top j, over j."""
    lengths = [j for j in CURVE if j <= len(table.true)]
    order = measures.top(table.true, max(lengths, default=0))
    bounds = _intervals(table, holders, lengths) if table.count != "rows" else {}
    figures = [
        Figure(
            measure=f"{kind} coverage@{j}", value=measures.coverage(table.published[order[:j]]), n=j
        )
        for j in lengths
    ]
    for name, distance in DISTANCES.items():
        for j in lengths:
            value = distance(measures.shares(table.true[order[:j]], table.counts[order[:j]]))
            low, high = bounds.get((name, j), (None, None))
            figures.append(
                Figure(measure=f"{kind} {name}@{j}", value=value, n=j, low=low, high=high)
            )
    literal = [
        measures.average_l1_of_all(table.true, table.counts, table.false, order[:j])
        for j in lengths
    ]
    return figures + [
        Figure(measure=f"{kind} L1 of all@{j}", value=value, n=j)
        for j, value in zip(lengths, literal, strict=True)
    ]


def _intervals(
    table: MatchedTable, holders: Holders, lengths: list[int]
) -> dict[tuple[str, int], tuple[float, float]]:
    """Intervals of the distances of the top j when the users of the log are resampled.

    The list stays the log's own top j, and so do the errors of the published counts: noise is there
    whoever is in the sample. So the raw log, which has none, stays perfect.
    """
    if not lengths:
        return {}
    size = max(lengths)  # the exact table has the most users first
    among = holders.item < size
    user, item = holders.user[among], holders.item[among]
    true, counts, published = table.users[:size], table.counts[:size], table.published[:size]
    distances: dict[tuple[str, int], list[float]] = {(n, j): [] for n in DISTANCES for j in lengths}
    for times in measures.resample_users(holders.users, resamples=RESAMPLES):
        again = _add_up(item, times[user], size)
        # Without counts all items weigh alike, whoever is in the sample.
        resampled = (
            counts if table.count is None else np.maximum(again + (counts - true), 0.0) * published
        )
        for j in lengths:
            both = measures.shares(again[:j], resampled[:j])
            for name, distance in DISTANCES.items():
                distances[name, j].append(distance(both))
    return {
        (name, j): _interval_around(
            DISTANCES[name](measures.shares(true[:j], counts[:j])),
            np.asarray(values),
            DISTANCES[name](measures.shares(true[:j], np.zeros(j))),
        )
        for (name, j), values in distances.items()
    }


def _interval_around(value: float, noisy: Floats, worst: float) -> tuple[float, float]:
    """The spread of the middle 95 % of the resamples, around the value.

    Resampling small counts adds noise of its own, which moves all resamples away from 0; the
    shift is taken off.
    """
    low, middle, high = np.quantile(noisy, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    return max(value + float(low - middle), 0.0), min(
        value + float(high - middle), max(worst, value)
    )


def _counts(kind: str, table: MatchedTable) -> list[Figure]:
    """Differences of counts over the whole table, and how they are distributed."""
    items = len(table.true)
    average, root = measures.scaled_differences(table.true, table.counts, table.false)
    whole = measures.shares(table.true, table.counts, table.false)
    figures = [
        Figure(measure=f"{kind} difference (scaled)", value=average, n=items),
        Figure(measure=f"{kind} RMS difference (scaled)", value=root, n=items),
        Figure(measure=f"{kind} TV of all", value=measures.total_variation(whole), n=items),
    ]
    if table.count is None:
        return figures
    gap = measures.largest_gap(table.noisy, table.true[table.published])
    figures.append(Figure(measure=f"{kind} counts gap", value=gap, n=len(table.noisy)))
    starts = measures.doublings(float(table.true.max()))
    ends = [
        f"{a}-{b - 1}" if b - 1 > a else f"{a}" for a, b in zip(starts, starts[1:], strict=False)
    ]
    names = ["below 1", *ends, f"{starts[-1]} and more"]
    numbers = measures.count_distribution(table.noisy, starts)
    return figures + [
        Figure(measure=f"{kind} items counted {name}", value=float(number), n=len(table.noisy))
        for name, number in zip(names, numbers, strict=True)
    ]


def _inaccuracies(kind: str, table: MatchedTable) -> list[Figure]:
    """How many items are wrongly reported as frequent, or wrongly not."""
    figures = list[Figure]()
    for tau in FREQUENCIES:
        slack = tau / SLACK
        frequent = table.published if table.count is None else table.counts >= tau
        wrong = sum(measures.inaccuracy(table.true, frequent, tau=tau, slack=slack))
        missed, let = measures.inaccuracy(table.true, table.published, tau=tau, slack=slack)
        often, seldom = (table.true > tau + slack).sum(), (table.true < tau - slack).sum()
        figures += [
            Figure(measure=f"{kind} inaccuracy@{tau}", value=float(wrong), n=int(often + seldom)),
            Figure(measure=f"{kind} frequent missed@{tau}", value=float(missed), n=int(often)),
            Figure(measure=f"{kind} infrequent published@{tau}", value=float(let), n=int(seldom)),
        ]
    return figures


def _pairs(table: MatchedTable, exact: pa.Table) -> list[Figure]:
    """Hong's measures of query-url pairs. Pairs that a single user has are removed first, as there."""
    shared = table.users > 1
    true, counts, published = table.true[shared], table.counts[shared], table.published[shared]
    query = exact["query"].combine_chunks().dictionary_encode().indices.to_numpy()[shared]
    published_queries = np.unique(query[published])
    n = len(true)
    figures = [
        Figure(measure="click diversity (pairs)", value=measures.coverage(published), n=n),
        Figure(
            measure="click diversity (queries)",
            value=measures.share(len(published_queries), len(np.unique(query))),
            n=len(np.unique(query)),
        ),
    ]
    for one_in in SUPPORTS:
        often = measures.frequent(true, counts, table.false, one_in=one_in)
        wanted = int(often.true.sum())
        if not wanted:
            continue
        distances = measures.support_distances(true, counts, table.false, often.true)
        size = int(often.published.sum()) + often.false
        figures += [
            Figure(measure=f"click precision@1/{one_in}", value=often.precision, n=size),
            Figure(measure=f"click recall@1/{one_in}", value=often.recall, n=wanted),
            Figure(
                measure=f"click support distance sum@1/{one_in}",
                value=float(distances.sum()),
                n=wanted,
            ),
            Figure(
                measure=f"click support distance mean@1/{one_in}",
                value=float(distances.mean()),
                n=wanted,
            ),
        ]
    ratios = measures.difference_ratios(true, counts, table.false)
    numbers = measures.ratio_histogram([ratios], [published], bins=BINS)
    names = [f"{10 * at}-{10 * at + 10} %" for at in range(BINS)] + ["over 100 %", "missing"]
    return figures + [
        Figure(measure=f"click ratio {name}", value=measures.share(number, n), n=n)
        for name, number in zip(names, numbers, strict=True)
    ]

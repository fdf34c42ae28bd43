"""Populations that generated logs are drawn from, and how their rows are drawn as numbers.

A population is fitted to a known log (docs/explanation/generate.md). Users, queries, sites and
ranks are drawn as numbers; `texts` gives their texts, `missions` the queries of a user in order,
`clicks` the clicked ranks. Draws no privacy noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from murmurlog.logs.invented import texts as text
from murmurlog.logs.invented.clicks import clicked_ranks
from murmurlog.logs.invented.missions import Behaviour, begins, draw_missions
from murmurlog.logs.invented.texts import Facts, Ints

Numbers = npt.NDArray[np.integer]

CHUNK = 1_000_000  # rows drawn at once; another number gives another log
STEP = 1 << 27  # seconds between the clocks of two users: more than any log lasts

# How many sessions start in each hour, from midnight, on working days and at weekends.
WORKING_DAY = (
    3, 2, 1.3, 1, 1, 1.3, 2.2, 3.6, 5, 6, 6.4, 6.6,
    6.6, 6.6, 6.6, 6.8, 7, 7, 7.2, 7.8, 8, 7.6, 6.2, 4.4,
)  # fmt: skip
WEEKEND = (
    4, 3, 2, 1.3, 1, 1, 1.4, 2.4, 4, 5.4, 6.2, 6.6,
    6.6, 6.4, 6.2, 6.2, 6.2, 6.2, 6.2, 6.4, 6.6, 6.4, 5.4, 4.2,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Population(Behaviour):
    """The population of a generated log: its size, and the behaviour of its users.

    The probability `silent` is of a user, `again`, `turned` and `engaged` of a submitted query.
    """

    rows: int
    users: int
    first_day: str
    days: int
    activity: float  # sigma of the log-normal law
    silent: float  # never clicks
    again: float  # the same query once more,
    turned: float  # and of these the next page of results
    engaged: float  # the user looks through the results


POPULATIONS = {
    "aol": Population(
        rows=36_389_567, users=657_426, first_day="2006-03-01", days=92, activity=1.35,
        silent=0.17, again=0.255, turned=0.3, engaged=0.65,
        new_session=0.25, reformulates=0.75, returns=0.1, own=0.365, site=0.31,
        shared=20_000_000, zipf_s=0.94, zipf_q=20.0,
    ),
    "zealous": Population(
        rows=12_000_000, users=500_000, first_day="2026-03-01", days=30, activity=1.2,
        silent=0.1, again=0.185, turned=0.2, engaged=0.89,
        new_session=0.37, reformulates=0.75, returns=0.1, own=0.265, site=0.34,
        shared=6_000_000, zipf_s=0.95, zipf_q=20.0,
    ),
}  # fmt: skip


def numbers(
    rng: np.random.Generator,
    population: Population,
    *,
    seed: int,
    sizes: Ints,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[list[Numbers], Ints]:
    """User, second, query, host (-1: no click) and rank of each row, by time; and specialised queries.

    The latter are more special queries that a user asked directly after the query they came from, each once.
    """
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // CHUNK)) + 1
    chunks, special = [], []
    for users in np.split(np.arange(len(sizes)), cuts):
        columns, specialised = _rows(rng, population, seed=seed, users=users, sizes=sizes[users])
        chunks.append(columns)
        special.append(specialised)
        advance(len(columns[0]))
    joined = [np.concatenate(column) for column in zip(*chunks, strict=True)]
    order = np.argsort(joined[1], kind="stable")  # the rows of one submission stay together
    return [column[order] for column in joined], np.unique(np.concatenate(special))


def sizes(rng: np.random.Generator, *, rows: int, users: int, sigma: float) -> Ints:
    """How many rows each user has, at least one, in proportion to a log-normal activity."""
    activity = rng.lognormal(0.0, sigma, users)
    return np.asarray(1 + rng.multinomial(rows - users, activity / activity.sum()))


def _rows(
    rng: np.random.Generator, population: Population, *, seed: int, users: Ints, sizes: Ints
) -> tuple[tuple[Numbers, ...], Ints]:
    """The result of `numbers` for some users, in ascending runs of users and their times.

    A submission has a row for each click, or one without a click. As many submissions are drawn as the
    user has rows; those beyond the rows are cut off.
    """
    p, user = population, np.repeat(users, sizes)
    first = begins(user)
    again = (rng.random(len(user)) < p.again) & ~first
    missions = draw_missions(rng, p, seed=seed, user=user[~again])
    query_index = np.cumsum(~again) - 1  # which different query each submission asks
    turned = again & (rng.random(len(user)) < p.turned)
    turns = np.cumsum(turned)
    page = np.minimum(turns - turns[np.flatnonzero(~again)][query_index], 9)
    engaged = (rng.random(len(user)) < p.engaged) & ~(text.uniform(user, seed + 1) < p.silent)
    submission, rank = clicked_ranks(
        rng,
        query=missions.query[query_index],
        intent=missions.intent[query_index],
        page=page,
        engaged=engaged,
        again=again & ~turned,
    )
    starts = np.flatnonzero(first[submission] & (np.diff(submission, prepend=-1) > 0))
    within = np.arange(len(submission)) - np.repeat(
        starts, np.diff(starts, append=len(submission))
    ) < (np.repeat(sizes, np.diff(starts, append=len(submission))))
    submission, rank = submission[within], rank[within]
    submitted = np.zeros(len(user), bool)
    submitted[submission] = True
    second = np.zeros(len(user), np.int64)
    new_session = (missions.new_session[query_index] & ~again)[submitted]
    second[submitted] = _seconds(rng, p, user=user[submitted], new_session=new_session)
    query, clicked = missions.query[query_index[submission]], rank > 0
    host = np.full(len(submission), -1)
    day = second[submission[clicked]] // 86_400
    host[clicked] = text.clicked_host(query[clicked], rank[clicked], day)
    special = missions.query[query_index[submitted & ~again & missions.specialised[query_index]]]
    # Small types: all chunks are in memory until they are ordered.
    narrow = (user[submission].astype(np.int32), second[submission].astype(np.int32), query)
    return (*narrow, host.astype(np.int32), rank.astype(np.int8)), np.unique(special)


def _seconds(
    rng: np.random.Generator, population: Population, *, user: Ints, new_session: Facts
) -> Ints:
    """Seconds since the first day: sessions by the rhythm of the week, then about a minute a query.

    A user's times strictly increase, also where one session runs into the next.
    """
    first = np.flatnonzero(new_session)
    start = _rhythm(rng.random(len(first)), population)
    clock = np.sort(user[first] * STEP + start)  # a user's sessions follow each other
    since = np.cumsum(np.where(new_session, 0, 1 + rng.exponential(75, len(user))))
    session = np.cumsum(new_session) - 1
    time = clock[session] + (since - since[first][session]).astype(np.int64)
    place = np.arange(len(user))
    return np.asarray(np.maximum.accumulate(time - place) + place - user * STEP)


def _rhythm(u: npt.NDArray[np.float64], population: Population) -> Ints:
    """The second of each fraction u, where all seconds of the log are in order and weighted by their hour."""
    begin = np.datetime64(population.first_day, "D")
    days = np.arange(begin, begin + population.days)
    weekend = ~np.is_busday(days)
    weights = np.where(weekend[:, None], WEEKEND, WORKING_DAY).ravel()
    steps = np.concatenate(([0.0], np.cumsum(weights)))
    return np.asarray(np.interp(u * steps[-1], steps, np.arange(len(steps)) * 3_600.0), np.int64)

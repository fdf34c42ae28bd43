"""Populations that generated logs are drawn from, and how their rows are drawn as numbers.

A population is fitted to a known log (docs/explanation/populations.md). Users, queries, sites and
ranks are drawn as numbers; `texts` gives their texts. Draws no privacy noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from murmurlog.errors import UsageError
from murmurlog.logs.invented import texts as text
from murmurlog.logs.invented.texts import Facts, Ints

Numbers = npt.NDArray[np.integer]

CHUNK = 1_000_000  # rows drawn at once; another number gives another log
FIXED = 0.7  # the share of misspellings that the user corrects at once
FAVOURITES = 4  # sites a user comes back to
SITE_S, SITE_Q = 1.1, 3.0  # how unequal the sites are
STEP = 1 << 27  # seconds between the clocks of two users: more than any log lasts


@dataclass(frozen=True, kw_only=True)
class Population:
    """The population of a generated log: its size, and the behaviour of its users.

    The probabilities `more` and `silent` are of a row and a user, `again`, `turned` and `clicked` of
    a submitted query, all others of a query that differs from the last. The remaining queries are shared.
    """

    rows: int
    users: int
    first_day: str
    days: int
    activity: float  # sigma of the log-normal law
    silent: float  # never clicks
    more: float  # one more click on the results that are there
    again: float  # the same query once more,
    turned: float  # and of these the next page of results
    clicked: float  # where no further click follows
    first: float  # a click is on the first result; the rank is geometric
    new_session: float
    own: float
    site: float
    special: float
    wrong: float = 0.015
    fear: float = 0.002
    personal: float = 0.0005
    shared: int  # how many shared queries there are,
    zipf_s: float  # and their popularity: rank r has weight (r + q)^-s
    zipf_q: float

    def __post_init__(self) -> None:
        kinds = self.own + self.site + self.special + self.wrong + self.fear + self.personal
        if kinds > 1:
            raise UsageError(f"kinds of queries have {kinds:.2f} of them: leave some to be shared")


POPULATIONS = {
    "aol": Population(
        rows=36_389_567, users=657_426, first_day="2006-03-01", days=92, activity=1.35,
        silent=0.17, more=0.24, again=0.27, turned=0.5, clicked=0.275, first=0.47,
        new_session=0.4, own=0.33, site=0.165, special=0.1,
        shared=20_000_000, zipf_s=0.94, zipf_q=20.0,
    ),
    "zealous": Population(
        rows=12_000_000, users=500_000, first_day="2026-03-01", days=30, activity=1.2,
        silent=0.1, more=0.29, again=0.2, turned=0.5, clicked=0.57, first=0.5,
        new_session=0.56, own=0.25, site=0.2, special=0.1,
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
) -> list[Numbers]:
    """User, second, query, host (-1: no click) and rank of each row, by time."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // CHUNK)) + 1
    chunks = []
    for some in np.split(np.arange(len(sizes)), cuts):
        user = np.repeat(some, sizes[some])
        chunks.append(_rows(rng, population, seed=seed, user=user))
        advance(len(user))
    columns = [np.concatenate(column) for column in zip(*chunks, strict=True)]
    order = np.argsort(columns[1], kind="stable")  # the rows of one submission stay together
    return [column[order] for column in columns]


def sizes(rng: np.random.Generator, *, rows: int, users: int, sigma: float) -> Ints:
    """How many rows each user has, at least one, in proportion to a log-normal activity."""
    activity = rng.lognormal(0.0, sigma, users)
    return np.asarray(1 + rng.multinomial(rows - users, activity / activity.sum()))


def _zipf(u: npt.NDArray[np.float64], *, size: int, s: float, q: float) -> Ints:
    """Ranks from 0 with weights (rank + q)^-s, for fractions u; the sum taken as an integral."""
    low, high = q ** (1 - s), (size + q) ** (1 - s)
    rank = (low + u * (high - low)) ** (1 / (1 - s)) - q
    return np.asarray(np.clip(rank.astype(np.int64), 0, size - 1))


def _after(fact: Facts) -> Facts:
    """Whether the fact held one place before."""
    return np.concatenate(([False], fact[:-1]))


def _rows(
    rng: np.random.Generator, population: Population, *, seed: int, user: Ints
) -> tuple[Numbers, ...]:
    """The result of `numbers` for some users, in ascending runs of users and their times.

    A row is a submission or one more click on the one before it.
    """
    silent = text.uniform(user, seed + 1) < population.silent
    more = (rng.random(len(user)) < population.more) & ~silent & ~_changed(user)
    submitted = np.flatnonzero(~more)
    query, second, again = _submissions(rng, population, seed=seed, user=user[submitted])
    site = text.kind_of(query) == text.SITE
    clicked = (rng.random(len(query)) < population.clicked) & (text.kind_of(query) != text.WRONG)
    followed = np.append(more[1:], False)[submitted]
    clicked = (clicked | site | followed) & ~silent[submitted]
    rank = np.where(site, 1, rng.geometric(population.first, len(query)))
    rank += 10 * (again & ~site & (rng.random(len(query)) < population.turned))
    of = np.cumsum(~more) - 1  # which submission each row belongs to
    down = np.cumsum(np.where(more, rng.geometric(population.first, len(user)), 0))
    rank = np.minimum(rank[of] + down - down[submitted][of], 100)
    query, clicked = query[of], clicked[of]
    host = np.full(len(user), -1)
    host[clicked] = text.clicked_host(query[clicked], rank[clicked])
    # Small types: all chunks are in memory until they are ordered.
    narrow = (user.astype(np.int32), second[of].astype(np.int32), query)
    return *narrow, host.astype(np.int32), rank.astype(np.int8)


def _submissions(
    rng: np.random.Generator, population: Population, *, seed: int, user: Ints
) -> tuple[Ints, Ints, Facts]:
    """Query and second of each submission, and whether it asks the query before it again."""
    again = (rng.random(len(user)) < population.again) & ~_changed(user)
    query, new_session = _distinct_queries(rng, population, seed=seed, user=user[~again])
    of = np.cumsum(~again) - 1  # which of these each submission asks
    begins = new_session[of] & ~again
    second = _seconds(rng, population.days, user=user, new_session=begins)
    return query[of], second, again


def _changed(user: Ints) -> Facts:
    """Whether a row is its user's first."""
    return np.concatenate(([True], user[1:] != user[:-1]))


def _distinct_queries(
    rng: np.random.Generator, population: Population, *, seed: int, user: Ints
) -> tuple[Ints, Facts]:
    """A query for each place of the users' series of different queries, and where sessions begin."""
    p, size = population, len(user)
    query = _zipf(rng.random(size), size=p.shared, s=p.zipf_s, q=p.zipf_q)
    unique = rng.integers(0, text.NUMBERS, size)  # so many that repeats are rare
    others = {
        text.OWN: (p.own, unique),
        text.SITE: (p.site, _favourites(rng, seed=seed, user=user)),
        text.FEAR: (p.fear, _zipf(rng.random(size), size=len(text.FEARS), s=1.01, q=1.0)),
        text.PERSONAL: (p.personal, unique),
    }
    chance = rng.random(size)
    edge = p.wrong
    for kind, (share, number) in others.items():
        there = (chance >= edge) & (chance < edge + share)
        query[there] = text.pack(kind, number[there])
        edge += share
    fixed = _misspelled(rng, p, query, user=user, at=chance < p.wrong)
    special = _specialised(rng, query, user=user, at=(chance >= 1 - p.special) & ~fixed)
    new_session = rng.random(size) < p.new_session
    return query, _changed(user) | new_session & ~fixed & ~special


def _misspelled(
    rng: np.random.Generator, population: Population, query: Ints, *, user: Ints, at: Facts
) -> Facts:
    """Where a query was made the right spelling of the one before, made a wrong one at some places."""
    wrong = at & ~_after(at)
    size = len(query)
    right = _zipf(rng.random(size), size=text.VARIED, s=population.zipf_s, q=population.zipf_q)
    variant = rng.integers(0, text.WRONGS, size)
    query[wrong] = text.pack(text.WRONG, right * text.WRONGS + variant)[wrong]
    fixed = _after(wrong) & ~_changed(user) & (rng.random(size) < FIXED)
    query[fixed] = right[np.flatnonzero(fixed) - 1]
    return np.asarray(fixed)


def _specialised(rng: np.random.Generator, query: Ints, *, user: Ints, at: Facts) -> Facts:
    """Where a query was made the one before with one more word: at these places, if that has such."""
    before = np.roll(query, 1)
    there = at & ~_after(at) & ~_changed(user) & (before < text.VARIED)
    variant = np.minimum(rng.geometric(0.4, len(query)), text.SPECIALS) - 1
    query[there] = text.pack(text.SPECIAL, before * text.SPECIALS + variant)[there]
    return np.asarray(there)


def _favourites(rng: np.random.Generator, *, seed: int, user: Ints) -> Ints:
    """For each row one of its user's favourite sites, always spelled the same way."""
    which = np.minimum(rng.geometric(0.5, len(user)), FAVOURITES)
    favourite = user * (FAVOURITES + 1) + which
    site = _zipf(text.uniform(favourite, seed + 2), size=text.SITES, s=SITE_S, q=SITE_Q)
    form = (text.uniform(favourite, seed + 3) * text.FORMS).astype(np.int64)
    return np.asarray(site * text.FORMS + form)


def _seconds(rng: np.random.Generator, days: int, *, user: Ints, new_session: Facts) -> Ints:
    """Seconds since the first day: sessions at random moments, then about a minute a query.

    A user's times strictly increase, also where one session runs into the next.
    """
    first = np.flatnonzero(new_session)
    day = rng.integers(0, days, len(first))
    hour = rng.normal(15, 4.5, len(first)) % 24
    start = ((day + hour / 24) * 86_400).astype(np.int64)
    clock = np.sort(user[first] * STEP + start)  # a user's sessions follow each other
    since = np.cumsum(np.where(new_session, 0, 1 + rng.exponential(75, len(user))))
    session = np.cumsum(new_session) - 1
    time = clock[session] + (since - since[first][session]).astype(np.int64)
    place = np.arange(len(user))
    return np.asarray(np.maximum.accumulate(time - place) + place - user * STEP)

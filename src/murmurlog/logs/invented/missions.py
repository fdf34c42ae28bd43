"""The different queries of users in order: search missions, and how users change a query within one.

A mission is what a user wants to find. Its first query is a shared one, the user's own, a site's name, a
misspelling, a fear or a personal string. A user who goes on with a shared or own query

- specialises it: asks it with one more word,
- generalises it: drops that word,
- moves in parallel: takes another added word, or a sibling, one of eight queries of one subject,
- corrects it, if it was misspelled,

or switches to another mission. A user who asked for a site by its name tries another form of the name, ends the
session or switches. All places of all users are drawn at once: the form of each query (base,
special or wrong) is drawn for itself, and the step between two queries follows from their forms. Draws no privacy noise.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from murmurlog.errors import UsageError
from murmurlog.logs.invented import texts as text
from murmurlog.logs.invented.texts import Facts, Ints

FIXED = 0.7  # the share of misspellings that the user corrects at once
SPECIAL_FIRST, SPECIAL_LATER = 0.1, 0.5  # the special form of a mission's first query; of others
RETRIED = 0.05  # within a session, after the name of a site: another form of it
ALONE = 0.8  # before and after the name of a site: a new session, where there would be none
MOVED = 0.25  # a changed query is also about a sibling
PREFERRED = 0.6  # the share of the first of a query's added words, and of its siblings; geometric
INTERESTED = 0.5  # a shared query is of one of the user's two topics
FAVOURITES = 4  # sites a user comes back to
SITE_S, SITE_Q = 1.1, 3.0  # how unequal the sites are
INTENTS = (0.75, 0.9)  # a user means the first intent of a query, or one of the first two


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What users ask, as probabilities.

    `new_session` and `reformulates` are of a query that differs from the last, all others of the first query of
    a mission. The remaining missions begin with a shared query.
    """

    new_session: float
    reformulates: float  # within a session: the last query is changed
    returns: float  # a mission of the same user once more
    own: float
    site: float
    wrong: float = 0.023
    fear: float = 0.003
    personal: float = 0.00075
    shared: int  # how many shared queries there are, a multiple of 8,
    zipf_s: float  # and their popularity: rank r has weight (r + q)^-s
    zipf_q: float

    def __post_init__(self) -> None:
        kinds = self.own + self.site + self.wrong + self.fear + self.personal
        if kinds > 1:
            raise UsageError(f"kinds of queries have {kinds:.2f} of them: leave some to be shared")


@dataclass(frozen=True, kw_only=True)
class Missions:
    """For each place of the users' series of different queries:"""

    query: Ints
    intent: Ints  # which of the query's intents the user has
    new_session: Facts
    specialised: Facts  # one more word than the query directly before


def begins(user: Ints) -> Facts:
    """Whether a place is its user's first."""
    return np.concatenate(([True], user[1:] != user[:-1]))


def draw_missions(
    rng: np.random.Generator, behaviour: Behaviour, *, seed: int, user: Ints
) -> Missions:
    """The missions of users, in ascending runs of users."""
    b, size, first = behaviour, len(user), begins(user)
    bases, wrong = _first_queries(rng, b, seed=seed, user=user)
    new_session = first | (rng.random(size) < b.new_session)
    changes = ~new_session & (rng.random(size) < b.reformulates)
    fixed = _after(wrong & ~changes) & ~first & (rng.random(size) < FIXED)
    new_session &= ~fixed
    changes = _continue_missions(bases, changes | fixed)
    site = (text.kind_of(bases) == text.SITE) & ~changes
    retried = _after(site) & ~new_session & (rng.random(size) < RETRIED)
    changes |= retried
    new_session |= (site | _after(site)) & ~retried & (rng.random(size) < ALONE)
    wrong &= ~changes
    start = np.maximum.accumulate(np.where(changes, 0, np.arange(size)))  # of each place's mission
    base = _revisit(rng, b.returns, bases[start], user=user, at=~changes & ~wrong)[start]
    special = (rng.random(size) < np.where(changes, SPECIAL_LATER, SPECIAL_FIRST)) & _varies(base)
    special &= ~fixed & ~wrong
    variant = np.minimum(rng.geometric(PREFERRED, size), text.SPECIALS) - 1
    # Without a move to a sibling, these would be the last query again.
    same = (special == _after(special)) & (~special | (variant == np.roll(variant, 1)))
    same &= ~_after(wrong)
    moved = changes & ~fixed & (same | (rng.random(size) < MOVED)) & _varies(base)
    # Siblings differ in the last three bits; all moves of a mission add up.
    sibling = np.where(moved, np.minimum(rng.geometric(PREFERRED, size), 7), 0)
    moves = np.bitwise_xor.accumulate(sibling)
    base = _other_form(rng, base ^ moves ^ moves[start], start=start)
    return Missions(
        query=_spell(base, variant, special=special, wrong=wrong),
        intent=np.searchsorted(INTENTS, rng.random(size), side="right")[start],
        new_session=new_session,
        specialised=special & changes & ~moved & ~_after(special | wrong),
    )


def _after(fact: Facts) -> Facts:
    """Whether the fact held one place before."""
    return np.concatenate(([False], fact[:-1]))


def _varies(query: Ints) -> Facts:
    """Whether users change such a query."""
    return np.asarray(text.kind_of(query) <= text.OWN)


def _continue_missions(bases: Ints, changes: Facts) -> Facts:
    """Where the last query is changed, if the mission's first is one that users change."""
    start = np.maximum.accumulate(np.where(changes, 0, np.arange(len(bases))))
    return np.asarray(changes & _varies(bases[start]))


def _first_queries(
    rng: np.random.Generator, behaviour: Behaviour, *, seed: int, user: Ints
) -> tuple[Ints, Facts]:
    """For each place the base query of a mission that begins there, and whether it is misspelled."""
    b, size = behaviour, len(user)
    query = _zipf(rng.random(size), size=b.shared, s=b.zipf_s, q=b.zipf_q)
    query = _interesting(rng, query, shared=b.shared, seed=seed, user=user)
    unique = rng.integers(0, text.NUMBERS // 8, size)  # so many that repeats are rare
    others = {
        text.OWN: (b.own, unique),
        text.SITE: (b.site, _favourites(rng, seed=seed, user=user)),
        text.FEAR: (b.fear, _zipf(rng.random(size), size=len(text.FEARS), s=1.01, q=1.0)),
        text.PERSONAL: (b.personal, unique),
    }
    chance = rng.random(size)
    wrong = chance < b.wrong
    query[wrong] = _zipf(rng.random(int(wrong.sum())), size=text.VARIED, s=b.zipf_s, q=b.zipf_q)
    edge = b.wrong
    for kind, (share, number) in others.items():
        mask = (chance >= edge) & (chance < edge + share)
        query[mask] = text.pack(kind, number[mask])
        edge += share
    return query, wrong


def _zipf(u: npt.NDArray[np.float64], *, size: int, s: float, q: float) -> Ints:
    """Ranks from 0 with weights (rank + q)^-s, for fractions u; the sum taken as an integral."""
    low, high = q ** (1 - s), (size + q) ** (1 - s)
    rank = (low + u * (high - low)) ** (1 / (1 - s)) - q
    return np.asarray(np.clip(rank.astype(np.int64), 0, size - 1))


def _interesting(
    rng: np.random.Generator, query: Ints, *, shared: int, seed: int, user: Ints
) -> Ints:
    """The shared queries, some moved to a place near by that has one of the user's topics.

    The most asked ones stay: there a few places are a large step in popularity.
    """
    group = len(text.TOPICS) * text.SIBLINGS
    draw = rng.random(len(query))
    topic = text.uniform(2 * user + (draw < INTERESTED / 2), seed + 4) * len(text.TOPICS)
    near = query // group * group + topic.astype(np.int64) * text.SIBLINGS + query % text.SIBLINGS
    mask = (draw < INTERESTED) & (query >= 10 * group) & (query < shared - group)
    return np.where(mask, near, query)


def _favourites(rng: np.random.Generator, *, seed: int, user: Ints) -> Ints:
    """For each place one of its user's favourite sites, always spelled the same way."""
    number = np.minimum(rng.geometric(0.5, len(user)), FAVOURITES)
    favourite = user * (FAVOURITES + 1) + number
    site = _zipf(text.uniform(favourite, seed + 2), size=text.SITES, s=SITE_S, q=SITE_Q)
    form = (text.uniform(favourite, seed + 3) * text.FORMS).astype(np.int64)
    return np.asarray(site * text.FORMS + form)


def _other_form(rng: np.random.Generator, query: Ints, *, start: Ints) -> Ints:
    """The queries, but after the first of its mission each name of a site in a form other than the last."""
    places = np.flatnonzero((text.kind_of(query) == text.SITE) & (start < np.arange(len(query))))
    step = np.zeros(len(query), np.int64)
    step[places] = rng.integers(1, text.FORMS, len(places))
    steps = np.cumsum(step)
    number = query & (text.NUMBERS - 1)
    form = (number + steps - steps[start]) % text.FORMS
    return np.where(step > 0, query - number % text.FORMS + form, query)


def _revisit(rng: np.random.Generator, share: float, base: Ints, *, user: Ints, at: Facts) -> Ints:
    """The base queries, some at these places replaced by that of an earlier mission of the user."""
    place = np.arange(len(user))
    first = np.maximum.accumulate(np.where(begins(user), place, 0))
    earlier = first + (rng.random(len(user)) * (place - first)).astype(np.int64)
    mask = at & (rng.random(len(user)) < share) & _varies(base[earlier])
    return np.where(mask, base[earlier], base)


def _spell(base: Ints, variant: Ints, *, special: Facts, wrong: Facts) -> Ints:
    """The numbers of queries, from those of base queries and their form."""
    is_own = text.kind_of(base) == text.OWN
    number = (base & (text.NUMBERS - 1)) * text.SPECIALS + variant
    kind = np.where(is_own, text.OWN_SPECIAL, text.SPECIAL) << text.KIND_BITS
    query = np.where(special, number + kind, base)
    slip = base[wrong] * text.WRONGS + variant[wrong] % text.WRONGS
    query[wrong] = text.pack(text.WRONG, slip)
    return query

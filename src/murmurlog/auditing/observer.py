"""What a bundle shows an attacker of each world, and the event that best separates the two sides.

The attacker sees published tables only. On the training worlds, whose side it knows, it searches for
the best event; on the other worlds the event is counted (`Counts`). The search itself therefore
costs no confidence.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.auditing.epsilon_bounds import Counts
from murmurlog.auditing.neighbouring_logs import LETTERS, OWN, place_of, without_secret

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Item = tuple[str, str]  # table, key without the world's name

TRAINING = 3  # every third world is a training world
MOST_CUTS = 60  # thresholds tried for each score


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The published numbers of one pair's worlds."""

    numbers: dict[tuple[Item, str], Floats]  # by item and column; nan: not published
    worlds: int

    def of(self, item: Item, column: str) -> Floats:
        """The published values of an item; nan where it is not published."""
        return self.numbers.get((item, column), np.full(self.worlds, np.nan))


def observe(tables: Mapping[str, pa.Table], *, worlds: Sequence[int]) -> list[Observation]:
    """The published numbers of every pair's worlds."""
    by_pair: list[dict[tuple[Item, str], Floats]] = [{} for _ in worlds]
    for name, table in tables.items():
        numeric = [f.name for f in table.schema if _is_number(f.type)]
        values = [np.asarray(table[c].to_pylist(), dtype=np.float64) for c in numeric]
        for row, (world, item) in enumerate(_keys(table)):
            pair, number = place_of(world)
            for column, cells in zip((*numeric, "rows"), (*values, None), strict=True):
                key = ((name, item), column)
                if key not in by_pair[pair]:
                    by_pair[pair][key] = np.full(worlds[pair], np.nan)
                at = by_pair[pair][key]
                value = 1.0 if cells is None else cells[row]
                # A log has several rows of the same item; their values are summed.
                at[number] = value if math.isnan(at[number]) else at[number] + value
    return [
        Observation(numbers=numbers, worlds=count)
        for numbers, count in zip(by_pair, worlds, strict=True)
    ]


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _keys(table: pa.Table) -> Iterator[tuple[str, str]]:
    """(world, item) of each row; every row belongs to a world."""
    columns = []
    for field in table.schema:
        if field.name == "user":  # invented names
            continue
        if pa.types.is_list(field.type):
            columns.append([" ".join(texts) for texts in table[field.name].to_pylist()])
        elif pa.types.is_string(field.type):
            columns.append(table[field.name].to_pylist())
    for texts in zip(*columns, strict=True):
        world = texts[0][:LETTERS]
        yield world, without_secret("|".join(texts).replace(world, ""))


def own_items_published(view: Observation) -> Flags:
    """The worlds that publish an item which only the one user has."""
    worlds = np.zeros(view.worlds, bool)
    for ((_, item), column), values in view.numbers.items():
        if column == "rows" and any(
            part.startswith(OWN) for part in re.split(r"[| ]|\.org/", item)
        ):
            worlds |= ~np.isnan(values)
    return worlds


# --- scores ---------------------------------------------------------------------------------------


def scores(view: Observation, inside: Flags, training: Flags) -> list[Floats]:
    """Scores for each world that are larger where the one user is likely present.

    Their components (signs, medians, odds) are learned on the training worlds alone.
    """
    items = sorted({item for item, _ in view.numbers})
    columns = sorted({column for _, column in view.numbers})
    candidates: list[Floats] = []
    for column in columns:
        parts: list[list[Floats]] = [[], [], [], []]
        for item in items:
            value = view.of(item, column)
            here = ~np.isnan(value)
            values = value[training & here]
            middle = float(np.median(values)) if len(values) else 0.0
            floor = float(values.min()) - 1 if len(values) else 0.0
            full = np.where(here, value, floor)
            # For each item: presence, above or below the median, distance from it, binary precision.
            for part, number in zip(
                parts,
                (
                    here.astype(np.float64),
                    np.clip(full - middle, -0.5, 0.5),
                    full - middle,
                    _fineness(np.where(here, value, 0.0)),
                ),
                strict=True,
            ):
                part.append(_orient(number, inside, training))
        candidates += [np.sum(part, axis=0) for part in parts if part]
    candidates.append(_odds(view, items, columns, inside, training))
    return [score for score in candidates if score[training].min() < score[training].max()]


def _orient(number: Floats, inside: Flags, training: Flags) -> Floats:
    """The number with the sign that makes it larger with the one user."""
    including, excluding = number[training & inside], number[training & ~inside]
    if not len(including) or not len(excluding):
        return number
    return number if including.mean() >= excluding.mean() else -number


def _fineness(values: Floats) -> Floats:
    """The number of binary places after the point, 0 for whole numbers: noise in floating point leaks by it."""
    places = np.zeros(len(values))
    broken = values != np.rint(values)
    mantissa, exponent = np.frexp(values[broken])
    whole = (mantissa * 2.0**53).astype(np.int64)
    trailing = np.log2((whole & -whole).astype(np.float64))
    places[broken] = np.maximum(0.0, 53 - trailing - exponent)
    return places


def _odds(
    view: Observation, items: Sequence[Item], columns: Sequence[str], inside: Flags, training: Flags
) -> Floats:
    """For each world, the odds that other training worlds with exactly this output had the user.

    A training world does not count for itself: an output that occurs once would seem to prove its side.
    """
    if not items:
        return np.zeros(view.worlds)
    stacked = np.stack([np.nan_to_num(view.of(i, c), nan=-1e9) for i in items for c in columns])
    _, kind = np.unique(stacked, axis=1, return_inverse=True)
    kind = np.asarray(kind).ravel()
    size = int(kind.max()) + 1
    including = np.bincount(kind[training & inside], minlength=size)
    excluding = np.bincount(kind[training & ~inside], minlength=size)
    with_user = including[kind] - (training & inside)
    without_user = excluding[kind] - (training & ~inside)
    return np.asarray(np.log((with_user + 0.5) / (without_user + 0.5)))


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Event:
    """The best event of the training worlds for one direction, counted on the other worlds."""

    direction: str  # "with": more likely with the one user; "without"
    counts: Counts


def best_events(view: Observation, inside: Flags, *, delta: float) -> list[Event]:
    """The best event found for each direction."""
    training = np.arange(view.worlds) % TRAINING == 0
    candidates = scores(view, inside, training)
    events = []
    for direction, side in (("with", inside), ("without", ~inside)):
        best, chosen = -1.0, np.zeros(view.worlds, bool)
        for score in candidates:
            towards = score if direction == "with" else -score
            for cut in _cuts(towards[training]):
                hits = towards >= cut
                # A lower bound here too, so that an event that was lucky in training does not win.
                least = count_hits(hits, side, training).least(delta=delta, alpha=0.05)
                if least > best:
                    best, chosen = least, hits
        events.append(Event(direction=direction, counts=count_hits(chosen, side, ~training)))
    return events


def _cuts(values: Floats) -> Floats:
    distinct = np.unique(values)
    if len(distinct) <= MOST_CUTS:
        return distinct
    return np.unique(np.quantile(distinct, np.linspace(0, 1, MOST_CUTS), method="nearest"))


def count_hits(hits: Flags, side: Flags, among: Flags) -> Counts:
    """How often the event occurred among some worlds, on this side and on the other."""
    return Counts(
        hits=int((hits & side & among).sum()),
        trials=int((side & among).sum()),
        hits_of_neighbour=int((hits & ~side & among).sum()),
        trials_of_neighbour=int((~side & among).sum()),
    )


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """The numbers of canaries in one run, of guesses about them, and of right guesses."""

    canaries: int
    guesses: int
    right: int


def make_guesses(view: Observation, inside: Flags) -> Guesses:
    """Guesses whether the user is present, made where the score is extreme.

    The rule is learned on the training worlds.
    """
    training = np.arange(view.worlds) % TRAINING == 0
    canaries = int((~training).sum())
    best, rule = -math.inf, None
    for score in scores(view, inside, training):
        for low, high in _tails(score[training]):
            guessed = (score <= low) | (score >= high)
            right = (score >= high) == inside
            n = int((guessed & training).sum())
            good = int((guessed & right & training).sum())
            gain = (good / n - 0.5) * math.sqrt(n) if n else -math.inf
            # A few reliable guesses prove more than many uncertain ones.
            share = (good + 1) / (n + 2)
            worth = math.log(share / (1 - share)) - 3 / math.sqrt(n) if gain > 0 else -math.inf
            if worth > best:
                best, rule = worth, (guessed & ~training, right)
    if rule is None:
        return Guesses(canaries=canaries, guesses=0, right=0)
    guessed, right = rule
    hits = int((guessed & right).sum())
    return Guesses(canaries=canaries, guesses=int(guessed.sum()), right=hits)


def _tails(values: Floats) -> Iterator[tuple[float, float]]:
    """Thresholds (low, high): a score up to `low` means "absent", one from `high` on "present"."""
    for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        low, high = np.quantile(values, share), np.quantile(values, 1 - share)
        if low < high:
            yield float(low), float(high)
    yield -math.inf, float(values.max())
    yield float(values.min()), math.inf

"""What an attacker sees of each world in a bundle, and the event it makes of that.

The attacker looks at published tables only. On one part of the worlds, where it is told who was
there, it looks for the event that tells most; on the others the event is counted (`Counts`). So
whatever is tried in looking costs no confidence.
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

TRAINING = 3  # every third world is for looking
MOST_CUTS = 60  # thresholds that are tried for each score


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is published of one pair's worlds: for each item and number, a value or nan."""

    numbers: dict[tuple[Item, str], Floats]  # by item and column; nan: not published
    worlds: int

    def of(self, item: Item, column: str) -> Floats:
        """The published values of an item; nan where it is not there."""
        return self.numbers.get((item, column), np.full(self.worlds, np.nan))


def seen(tables: Mapping[str, pa.Table], *, worlds: Sequence[int]) -> list[Seen]:
    """The published numbers of every pair's worlds."""
    found: list[dict[tuple[Item, str], Floats]] = [{} for _ in worlds]
    for name, table in tables.items():
        numeric = [f.name for f in table.schema if _is_number(f.type)]
        values = [np.asarray(table[c].to_pylist(), dtype=np.float64) for c in numeric]
        for row, (world, item) in enumerate(_keys(table)):
            pair, number = place_of(world)
            for column, numbers in zip((*numeric, "rows"), (*values, None), strict=True):
                key = ((name, item), column)
                if key not in found[pair]:
                    found[pair][key] = np.full(worlds[pair], np.nan)
                at = found[pair][key]
                value = 1.0 if numbers is None else numbers[row]
                # A log has several rows of the same item: they add up.
                at[number] = value if math.isnan(at[number]) else at[number] + value
    return [Seen(numbers=each, worlds=many) for each, many in zip(found, worlds, strict=True)]


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _keys(table: pa.Table) -> Iterator[tuple[str, str]]:
    """(world, item) of each row; rows that name no world are left out of nothing: there are none."""
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


def shows_own(what: Seen) -> Flags:
    """Where something of the one user alone is published; without it, it cannot be."""
    found = np.zeros(what.worlds, bool)
    for ((_, item), column), values in what.numbers.items():
        if column == "rows" and any(
            part.startswith(OWN) for part in re.split(r"[| ]|\.org/", item)
        ):
            found |= ~np.isnan(values)
    return found


# --- scores ---------------------------------------------------------------------------------------


def scores(what: Seen, inside: Flags, training: Flags) -> list[Floats]:
    """Numbers for each world that are large where the one user may be there.

    What they are made of (signs, middles, odds) is learned on the worlds for training alone.
    """
    items = sorted({item for item, _ in what.numbers})
    columns = sorted({column for _, column in what.numbers})
    made: list[Floats] = []
    for column in columns:
        parts: list[list[Floats]] = [[], [], [], []]
        for item in items:
            value = what.of(item, column)
            here = ~np.isnan(value)
            known = value[training & here]
            middle = float(np.median(known)) if len(known) else 0.0
            floor = float(known.min()) - 1 if len(known) else 0.0
            full = np.where(here, value, floor)
            # For each item: there or not, more or less than the middle, how much, how fine.
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
                part.append(_signed(number, inside, training))
        made += [np.sum(part, axis=0) for part in parts if part]
    made.append(_odds(what, items, columns, inside, training))
    return [score for score in made if score[training].min() < score[training].max()]


def _signed(number: Floats, inside: Flags, training: Flags) -> Floats:
    """The number, turned so that it is larger with the one user."""
    with_it, without = number[training & inside], number[training & ~inside]
    if not len(with_it) or not len(without):
        return number
    return number if with_it.mean() >= without.mean() else -number


def _fineness(values: Floats) -> Floats:
    """How far behind the binary point a number goes: 0 for whole ones. Floating point leaks by it."""
    found = np.zeros(len(values))
    broken = values != np.rint(values)
    mantissa, exponent = np.frexp(values[broken])
    whole = (mantissa * 2.0**53).astype(np.int64)
    trailing = np.log2((whole & -whole).astype(np.float64))
    found[broken] = np.maximum(0.0, 53 - trailing - exponent)
    return found


def _odds(
    what: Seen, items: Sequence[Item], columns: Sequence[str], inside: Flags, training: Flags
) -> Floats:
    """For each world, the odds that worlds with exactly this output had the user."""
    if not items:
        return np.zeros(what.worlds)
    stacked = np.stack([np.nan_to_num(what.of(i, c), nan=-1e9) for i in items for c in columns])
    _, kind = np.unique(stacked, axis=1, return_inverse=True)
    kind = np.asarray(kind).ravel()
    size = int(kind.max()) + 1
    with_it = np.bincount(kind[training & inside], minlength=size)
    without = np.bincount(kind[training & ~inside], minlength=size)
    return np.asarray(np.log((with_it + 0.5) / (without + 0.5)))[kind]


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Found:
    """The event chosen in training for one direction, counted on the other worlds."""

    direction: str  # "with": likelier with the one user; "without"
    counts: Counts


def events(what: Seen, inside: Flags, *, delta: float) -> list[Found]:
    """The best event found for each direction."""
    training = np.arange(what.worlds) % TRAINING == 0
    made = scores(what, inside, training)
    found = []
    for direction, side in (("with", inside), ("without", ~inside)):
        best, chosen = -1.0, np.zeros(what.worlds, bool)
        for score in made:
            towards = score if direction == "with" else -score
            for cut in _cuts(towards[training]):
                hits = towards >= cut
                # A strict bound even here: what was lucky in training must not win.
                least = counted(hits, side, training).least(delta=delta, alpha=0.05)
                if least > best:
                    best, chosen = least, hits
        found.append(Found(direction=direction, counts=counted(chosen, side, ~training)))
    return found


def _cuts(values: Floats) -> Floats:
    distinct = np.unique(values)
    if len(distinct) <= MOST_CUTS:
        return distinct
    return np.unique(np.quantile(distinct, np.linspace(0, 1, MOST_CUTS), method="nearest"))


def counted(hits: Flags, side: Flags, among: Flags) -> Counts:
    """How often the event was seen among some worlds, on this side and on the other."""
    return Counts(
        hits=int((hits & side & among).sum()),
        trials=int((side & among).sum()),
        hits_of_neighbour=int((hits & ~side & among).sum()),
        trials_of_neighbour=int((~side & among).sum()),
    )


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """Guesses about canaries of one run: how many there were, were guessed, and were right."""

    canaries: int
    guesses: int
    right: int


def guesses(what: Seen, inside: Flags) -> Guesses:
    """Who was there, said only where it is likely enough; the rule is learned in training."""
    training = np.arange(what.worlds) % TRAINING == 0
    best, rule = -math.inf, None
    for score in scores(what, inside, training):
        for low, high in _tails(score[training]):
            said = (score <= low) | (score >= high)
            right = (score >= high) == inside
            n = int((said & training).sum())
            good = int((said & right & training).sum())
            gain = (good / n - 0.5) * math.sqrt(n) if n else -math.inf
            # Few sure guesses prove more than many that are half right.
            share = (good + 1) / (n + 2)
            worth = math.log(share / (1 - share)) - 3 / math.sqrt(n) if gain > 0 else -math.inf
            if worth > best:
                best, rule = worth, (said & ~training, right)
    if rule is None:
        return Guesses(canaries=int((~training).sum()), guesses=0, right=0)
    said, right = rule
    return Guesses(
        canaries=int((~training).sum()), guesses=int(said.sum()), right=int((said & right).sum())
    )


def _tails(values: Floats) -> Iterator[tuple[float, float]]:
    """Below the one, "not there"; above the other, "there"."""
    for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        low, high = np.quantile(values, share), np.quantile(values, 1 - share)
        if low < high:
            yield float(low), float(high)
    yield -math.inf, float(values.max())
    yield float(values.min()), math.inf

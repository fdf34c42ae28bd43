"""The exact law of `session-tree` with one round a level: every outcome of a few sessions, by summation."""

import itertools
import math

from scipy.special import ndtr

from murmurlog.privacy.counts import GRID


def items_of(session):
    """Every subsequence of two or more queries, without equal neighbours."""
    found = {
        picked
        for n in range(2, len(session) + 1)
        for picked in itertools.combinations(session, n)
        if all(x != y for x, y in itertools.pairwise(picked))
    }
    return sorted(found)


def law(mechanism, units, *, noise=1.0, free=False):
    """P(published set), where `units` has the sessions (as a text of one letter a query) of every unit.

    `noise` multiplies what is drawn; `free`: extensions of a published prefix need no threshold. Twins.
    """
    (scale,), (T,) = mechanism.selection.schedule.scales, mechanism.selection.schedule.thresholds
    (own,) = mechanism.selection.schedule.own
    held = [{item for session in sessions for item in items_of(session)} for sessions in units]
    found = {}

    def grow(length, before, chance):
        last = {item for item in before if len(item) == length - 1}
        weights = {}
        for items in held:
            mine = [i for i in items if len(i) == length and (length == 2 or i[:-1] in last)]
            for item in mine:
                weights[item] = weights.get(item, 0) + math.isqrt(GRID**2 // len(mine))
        if length > mechanism.l_q or not weights:
            key = frozenset(before)
            found[key] = found.get(key, 0.0) + chance
            return
        passing = {
            item: 1.0
            if free and length > 2
            else float(ndtr((W + 0.5 - T / own) / (noise * scale * GRID)))
            for item, W in weights.items()
        }
        for shown in itertools.product((False, True), repeat=len(passing)):
            now = chance
            for there, p in zip(shown, passing.values(), strict=True):
                now *= p if there else 1 - p
            if now > 0:
                passed = {item for item, there in zip(passing, shown, strict=True) if there}
                grow(length + 1, before | passed, now)

    grow(2, frozenset(), 1.0)
    assert abs(sum(found.values()) - 1) < 1e-9
    return found


def largest_delta(mechanism, *, epsilon, worlds, histories, neighbours="add-remove", **twin):
    """The largest delta(epsilon) over other units' sessions and what one unit may hold."""
    largest = 0.0
    for others in worlds:
        laws = [law(mechanism, [*others, one], **twin) for one in histories]
        laws.append(law(mechanism, others, **twin))
        nobody = len(laws) - 1
        for one, other in itertools.permutations(range(len(laws)), 2):
            if neighbours == "replace" or nobody in (one, other):
                P, Q = laws[one], laws[other]
                over = (p - math.exp(epsilon) * Q.get(key, 0.0) for key, p in P.items())
                largest = max(largest, math.fsum(max(0.0, x) for x in over))
    return largest

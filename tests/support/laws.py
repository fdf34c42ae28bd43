"""Exact output laws on tiny domains, by summation: nothing here is sampled or taken from a theorem."""

import functools
import itertools
import math

import numpy as np
from scipy.special import ndtr

SURE = 400  # a count at which dropping the item is out of the question for the noises used here


def mass(noise, scale, k):
    """P(Z = k) for integer k."""
    k = np.asarray(k, dtype=float)
    if noise == "geometric":
        a = math.exp(-1 / scale)
        return (1 - a) / (1 + a) * a ** np.abs(k)
    if noise == "gaussian":  # rounded; from the nearer tail, to keep digits
        k = np.abs(k)
        return ndtr(-(k - 0.5) / scale) - ndtr(-(k + 0.5) / scale)
    support = np.arange(-int(40 * scale) - 9, int(40 * scale) + 10)
    assert noise == "discrete gaussian"
    return np.exp(-(k**2) / (2 * scale**2)) / np.exp(-(support**2) / (2 * scale**2)).sum()


def item_law(noise, scale, T, c, shown):
    """The law of one item with c users: dropped, or published with a value of `shown`."""
    if c == 0:
        return np.concatenate([[1.0], np.zeros(len(shown))])
    values = mass(noise, scale, shown - c)
    dropped = mass(noise, scale, np.arange(T - 1, T - 400 - int(60 * scale), -1) - c).sum()
    return np.concatenate([[dropped], values])


def hockey_stick(P, Q, epsilon):
    """sum max(0, P - e^epsilon Q) over the product of independent items."""
    p, q = np.ones(1), np.ones(1)
    for one, other in zip(P, Q, strict=True):
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    return float(np.maximum(0.0, p - math.exp(epsilon) * q).sum())


def largest_delta(law_of, *, others, holds, epsilon, neighbours):
    """The largest delta(epsilon) over neighbours on a domain of a few independent items.

    law_of(c, base) is the law of an item with c users where the others are `base`; `holds` are the
    vectors a user may add to the items (and, under replace, exchange for one another).
    """
    laws = functools.cache(law_of)
    found = 0.0
    for before, after in itertools.product(holds, repeat=2):
        if neighbours == "add-remove" and any(before) and any(after):
            continue
        changed = [(x, y) for x, y in zip(before, after, strict=True) if x != y]
        for counts in itertools.product(others, repeat=len(changed)):
            P = [laws(c + x, c) for c, (x, _) in zip(counts, changed, strict=True)]
            Q = [laws(c + y, c) for c, (_, y) in zip(counts, changed, strict=True)]
            found = max(found, hockey_stick(P, Q, epsilon))
    return found


def user_vectors(d, items, *, repeats=False):
    """Every vector of a user: up to d items once, or up to d rows in all."""
    most = d if repeats else 1
    return [h for h in itertools.product(range(most + 1), repeat=items) if sum(h) <= d]


def worst_delta(*, noise, scale, T, d, epsilon, neighbours, items=3):
    """`largest_delta` for one draw and a threshold.

    Others hold an item 0 times, once, near the threshold, or so often that it is sure to show.
    """
    near = np.arange(T, T + int(14 * scale) + 40)
    far = np.arange(SURE - int(14 * scale) - 40, SURE + int(14 * scale) + 42)

    def law_of(c, base):
        law = item_law(noise, scale, T, c, far if base >= SURE else near)
        assert law.sum() > 1 - 1e-9
        return law

    return largest_delta(
        law_of,
        others=sorted({0, 1, max(1, T - 1), SURE}),
        holds=user_vectors(d, items),
        epsilon=epsilon,
        neighbours=neighbours,
    )


def fresh_law(b, T, b_q, c, base):
    """The law of one item under select, then fresh count: dropped, or published with a value."""
    if c == 0:
        dropped = 1.0
    else:
        below = np.arange(T - 1, T - 400 - int(60 * b), -1)
        dropped = float(mass("geometric", b, below - c).sum())
    if b_q is None:
        return np.array([dropped, 1 - dropped])
    values = np.arange(base - int(20 * b_q) - 12, base + int(20 * b_q) + 13)
    return np.concatenate([[dropped], (1 - dropped) * mass("geometric", b_q, values - c)])

"""Exact output laws on tiny domains, by summation: nothing here is sampled or taken from a theorem."""

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


def worst_delta(*, noise, scale, T, d, epsilon, neighbours, items=3):
    """The largest delta(epsilon) over neighbours on a domain of a few items.

    Others hold an item 0 times, once, near the threshold, or so often that it is sure to show;
    the user holds up to d of the items (and, under replace, up to d others instead).
    """
    others = sorted({0, 1, 2, max(1, T - 1), T, SURE})
    near = np.arange(T, T + int(14 * scale) + 40)
    far = np.arange(SURE - int(14 * scale) - 40, SURE + int(14 * scale) + 42)
    laws = {
        c: item_law(noise, scale, T, c, far if c >= SURE else near)
        for c in {c + more for c in others for more in (0, 1)}
    }
    assert min(law.sum() for law in laws.values()) > 1 - 1e-9
    worst = 0.0
    hold = [held for held in itertools.product((0, 1), repeat=items) if sum(held) <= d]
    for before, after in itertools.product(hold, repeat=2):
        if neighbours == "add-remove" and sum(before) and sum(after):
            continue
        changed = [(x, y) for x, y in zip(before, after, strict=True) if x != y]
        for counts in itertools.combinations_with_replacement(others, len(changed)):
            for order in set(itertools.permutations(counts)):
                P = [laws[c + x] for c, (x, _) in zip(order, changed, strict=True)]
                Q = [laws[c + y] for c, (_, y) in zip(order, changed, strict=True)]
                worst = max(worst, hockey_stick(P, Q, epsilon))
    return worst

"""The parameters of `rounds` as text, and back: the name of the mechanism in a certificate."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from murmurlog.errors import UsageError
from murmurlog.mechanisms.letters import number, whole
from murmurlog.mechanisms.rounds.pools import PoolKeys
from murmurlog.privacy import Schedule, WeightedCounts
from murmurlog.privacy.rounds import FULL

MOST_FACTOR = 1e9  # of C and reach: products with 64-bit numbers stay finite


def letters_of(
    s: Schedule, limits: Mapping[str, float], pools: Sequence[PoolKeys]
) -> dict[str, Any]:
    """All letters with their values; lists are joined by _."""
    parts: dict[str, Any] = {
        "d": s.d,
        "s": _join(s.scales),
        "own": _join(s.own),
        "past": _join(s.past),
        "T": _join(s.thresholds),
        **limits,
    }
    if s.counts is not None:
        parts |= {"sigma1": s.counts.scale, "sigma_h": s.counts.histogram_scale}
        parts |= {} if s.counts.per_user is None else {"d2": s.counts.per_user}
    if pools:
        thresholds = [T for pool in pools for T in pool.thresholds]
        parts |= {"N": _join([pool.size for pool in pools]), "TP": _join(thresholds)}
    return parts


def check_limits(s: Schedule, limits: Mapping[str, float]) -> None:
    """Raises unless these thresholds, C, reach and focus define rounds."""
    C, reach, focus = limits["C"], limits["reach"], limits["focus"]
    if not (0 <= C <= MOST_FACTOR or (math.isinf(C) and C > 0)):
        raise UsageError(f"C must be at least 0 and at most {MOST_FACTOR:g}, or inf, not {C!r}")
    if not 0 < reach <= MOST_FACTOR:
        raise UsageError(f"reach must be a positive number up to {MOST_FACTOR:g}, not {reach!r}")
    if not 1 / FULL <= focus <= 1:
        raise UsageError(f"focus must lie between {1 / FULL} and 1, not {focus!r}")
    if min(s.thresholds) < 0:
        raise UsageError(f"T must be at least 0, not {min(s.thresholds)}: a single user would show")


def schedule_from(letters: dict[str, str]) -> Schedule:
    """From d, s, own, past, T, sigma1, sigma_h, d2; takes them out of `letters`."""
    scales = _numbers(letters, "s")
    return Schedule(
        d=whole(number(letters, "d"), "d"),
        scales=scales,
        own=_wholes(letters, "own", default=(1,) * len(scales)),
        past=_wholes(letters, "past", default=(0,) * (len(scales) - 1)),
        thresholds=_wholes(letters, "T"),
        counts=_counts(letters),
    )


def _counts(letters: dict[str, str]) -> WeightedCounts | None:
    """The noise of the counts from sigma1, sigma_h and d2."""
    scales = {
        name: number(letters, name) for name in ("sigma1", "sigma_h", "d2") if name in letters
    }
    d2 = whole(scales.pop("d2"), "d2") if "d2" in scales else None
    if scales.keys() == {"sigma1", "sigma_h"}:
        return WeightedCounts(
            scale=scales["sigma1"], histogram_scale=scales["sigma_h"], per_user=d2
        )
    if scales or d2 is not None:
        raise UsageError("counts need sigma1 and sigma_h, and may have d2")
    return None


def pools_from(letters: dict[str, str], rounds: int) -> tuple[PoolKeys, ...]:
    """Classes of public keys from N, a size a pool, and TP, a threshold a round and pool."""
    sizes, thresholds = _wholes(letters, "N", default=()), _wholes(letters, "TP", default=())
    if len(thresholds) != rounds * len(sizes):
        raise UsageError(f"TP needs a number for each of {rounds} rounds of {len(sizes)} pools")
    return tuple(
        PoolKeys(size=size, thresholds=thresholds[n * rounds : (n + 1) * rounds])
        for n, size in enumerate(sizes)
    )


def _join(values: Sequence[float]) -> str:
    return "_".join(repr(value) for value in values)


def _numbers(letters: dict[str, str], name: str) -> tuple[float, ...]:
    """The numbers of all rounds given under a name; takes it out of `letters`."""
    if name not in letters:
        raise UsageError(f"missing parameter {name}: a number for each round, joined by _")
    parts = letters.pop(name).split("_")
    return tuple(number({name: part}, name) for part in parts)


def _wholes(
    letters: dict[str, str], name: str, *, default: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    if name not in letters and default is not None:
        return default
    return tuple(whole(value, name) for value in _numbers(letters, name))

"""Parts of a log: its users by fold, and its users as units of time. Functions of one partition."""

from dataclasses import replace
from functools import partial

import numpy as np

from murmurlog.counting.items import check
from murmurlog.logs.log import Log
from murmurlog.logs.rows import NEVER, PERIODS, Rows, period_start
from murmurlog.logs.text_keys import number_keys
from murmurlog.privacy.sampler import SeededEntropy

SEED = 20060804  # of the keys of texts: nothing is published, and a user is always in the same fold
TEST_SHARE = 5  # one fold holds out one user in five


def key_entropy() -> SeededEntropy:
    """The entropy of the keys of a log that is scored: the same every time."""
    return SeededEntropy(SEED)


def split(log: Log, *, fold: int, folds: int) -> tuple[Log, Log]:
    """The logs of training users and of held-out users; a user's fold follows from the user's key alone."""
    parts = TEST_SHARE if folds == 1 else folds
    training, held_out = (
        log.partitions.derive(partial(_of_fold, fold=fold, parts=parts, inside=inside))
        for inside in (False, True)
    )
    return replace(log, partitions=training), replace(log, partitions=held_out)


def _of_fold(rows: Rows, *, fold: int, parts: int, inside: bool) -> Rows:
    """The rows of the users who are in a fold, or of all others."""
    chosen = rows.user_keys[:, 0] % np.uint64(parts) == fold
    return rows.at((chosen == inside)[rows.unit])


def with_unit(log: Log, unit: str) -> Log:
    """The log of users with other units: those of a user are in the partition of the user."""
    if unit == log.unit:
        return log
    check(log.source, kind="query", unit=unit)
    return replace(log, partitions=log.partitions.derive(partial(_cut, unit=unit)), unit=unit)


def _cut(rows: Rows, *, unit: str) -> Rows:
    """The rows that have a time, with units of a user's day, week or month, as a log read so has them."""
    rows = rows.at(rows.time != NEVER)
    period = np.zeros((rows.count, 2), np.uint64)
    period[:, 0] = period_start(rows.time, PERIODS[unit]).astype(np.uint64)
    users = rows.user_keys[rows.unit]
    keys = rows.text_keys.combine([users, period])
    code, first = number_keys(keys)
    order = np.lexsort((rows.time, code))
    return replace(rows.at(order), unit=code[order], unit_keys=keys[first], user_keys=users[first])

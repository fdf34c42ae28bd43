"""The smallest input that still shows a difference: parts are left out as long as it stays."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from reader_neighbours import Options, Pair
from reader_samples import LARGEST, LONGEST, WHOLE, File, Sample

TRIALS = 400  # readings to make one input small,
SECONDS = 10.0  # and how long they may take
T = TypeVar("T", bytes, tuple[Any, ...])


def without_parts(items: T, fails: Callable[[T], bool]) -> T:
    """The items without all that is not needed for a failure: halves, quarters, single ones."""
    size = max(1, len(items) // 2)
    while items:
        at, shorter = 0, False
        while at < len(items):
            rest = items[:at] + items[at + size :]
            if fails(rest):
                items, shorter = rest, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return items


class Trials:
    """Whether a changed input still fails in the same way, for a limited number of trials."""

    def __init__(self, said: str, check: Callable[[Any], str]) -> None:
        self.way = said.partition(":")[0]
        self.check = check
        self.left = TRIALS
        self.end = time.monotonic() + SECONDS

    def fails(self, changed: Any) -> bool:
        self.left -= 1
        in_time = self.left > 0 and time.monotonic() < self.end
        return in_time and self.check(changed).partition(":")[0] == self.way


def smallest(sample: Sample, trials: Trials) -> Sample:
    """The sample with fewer files, plainer settings and fewer bytes, as long as it fails."""
    for file in sample.files:
        if len(sample.files) > 1 and trials.fails(one := replace(sample, files=(file,))):
            sample = one
    changes: list[dict[str, Any]] = [
        {"threads": 1}, {"block": WHOLE}, {"longest": LONGEST}, {"largest": LARGEST}, {"encoding": None}, {"columns": {}}
    ]  # fmt: skip
    for change in changes:
        if trials.fails(changed := replace(sample, **change)):
            sample = changed
    for at, file in enumerate(sample.files):
        plain = replace(file, packing="")
        if file.packing and trials.fails(changed := _with_file(sample, at, plain)):
            sample, file = changed, plain
        content = without_parts(file.content, partial(_fails_with, sample, at, file, trials))
        sample = _with_file(sample, at, replace(file, content=content))
    return sample


def _with_file(sample: Sample, at: int, file: File) -> Sample:
    return replace(sample, files=(*sample.files[:at], file, *sample.files[at + 1 :]))


def _fails_with(sample: Sample, at: int, file: File, trials: Trials, content: bytes) -> bool:
    return trials.fails(_with_file(sample, at, replace(file, content=content)))


def smallest_pair(one: Pair, trials: Trials) -> Pair:
    """The pair with fewer records and plainer settings, as long as somebody's row changes."""
    changes: list[dict[str, Any]] = [
        {"threads": 1}, {"block": WHOLE}, {"packing": ""}, {"options": Options()}
    ]  # fmt: skip
    for change in changes:
        if trials.fails(changed := replace(one, **change)):
            one = changed
    added = without_parts(one.added, lambda rest: trials.fails(replace(one, added=rest)))
    one = replace(one, added=added)
    base = without_parts(one.base, lambda rest: trials.fails(replace(one, base=rest)))
    return replace(one, base=base)

"""What every mechanism offers, and how its parameters are written as text."""

import re
from collections.abc import Mapping
from typing import Any, Protocol, Self

import pyarrow as pa

from murmurlog.errors import Refused, UsageError
from murmurlog.noise import Entropy
from murmurlog.privacy import Guarantee
from murmurlog.tally import Tally


class Mechanism(Protocol):
    """Steps that make a table from a tally, and the theorem about them.

    The theorem never sees data; the steps never see epsilon. `count` is what it counts: "users",
    or "rows" for those that bound rows.
    """

    @property
    def count(self) -> str: ...

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From the paper's letters, as written after `--set` or in the mechanism's text."""

    @classmethod
    def solve(cls, *args: Any, **keywords: Any) -> Self:
        """The parameters that keep (epsilon, delta): by epsilon, delta, d, neighbours, noise and
        the mechanism's own options."""

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """What is proved, at this epsilon or at this delta."""

    def release(self, tally: Tally, *, entropy: Entropy) -> pa.Table:
        """The published rows: key columns, users, users_stderr, reliable."""

    def passes(self, probability: float) -> int:
        """The least true count that is published with at least this probability."""

    def least_users(self) -> int | None:
        """The least value the count can have; None if it can be anything."""

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names, for certificates."""

    @staticmethod
    def finish(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """What is done with all tables of the release once they are published values."""


def read_letters(text: str) -> dict[str, str]:
    """{"d": "20", "scale": "8.7"} from "d=20, scale=8.7"."""
    letters: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"(\w+)\s*=\s*([\w.+-]+)", part)
        if not match or match[1] in letters:
            raise UsageError(f"cannot read {part!r}: write letters as K=50,b=10, each once")
        letters[match[1]] = match[2]
    return letters


def number(letters: dict[str, str], *names: str, default: float | None = None) -> float:
    """The value given under any one of the names; takes it out of `letters`."""
    given = [name for name in names if name in letters]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are the same parameter: give one")
    if not given:
        if default is None:
            raise UsageError(f"missing parameter {names[0]}")
        return default
    text = letters.pop(given[0])
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{given[0]} must be a number, not {text!r}") from None


def whole(value: float, name: str) -> int:
    if value != int(value):
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def check_bound(tally: Tally, d: int) -> None:
    """Fails closed when the tally was bounded less tightly than the mechanism's theorem needs."""
    if tally.per_user > d:
        raise Refused(
            f"the {tally.kind} tally holds up to {tally.per_user} items a {tally.unit}, the mechanism "
            f"is proved for {d}: bound the log to {d}"
        )

"""What every mechanism offers, and how its parameters are written as text."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.decimals import decimal
from murmurlog.bundle.schema import By, count_of, keys_of
from murmurlog.counting.bound import bound
from murmurlog.counting.items import GAP, Items, items
from murmurlog.counting.subsequences import items_for, sets
from murmurlog.counting.tally import Tally, tally
from murmurlog.errors import Refused, UsageError
from murmurlog.logs.log import Log
from murmurlog.privacy import Guarantee, Loss
from murmurlog.privacy.sampler import MOST_SCALE, Entropy

MOST_ITEMS = 100_000  # items a unit: a claim is computed for each number of them
MOST_THRESHOLD = 1 << 40
LEAST_SCALE = 1e-4
FOLLOWING = ("pair", "click", "session")  # tables that name queries, and can wait for them
ITEMS = ("keyword", "query", "pair", "click", "itemset")  # what a unit holds several of


@dataclass(frozen=True, kw_only=True)
class View:
    """What a mechanism is told besides the log: what to count, and inputs that are public."""

    kind: str  # the table
    unit: str = "user"
    by: By | None = None
    way: str | None = None  # how units are bounded
    gap: float = GAP  # seconds without a query that end a session
    set_size: int = 2  # itemset: the largest set
    consecutive: bool = False  # itemset: only runs of neighbouring queries
    options: Mapping[str, Any] = field(default_factory=dict)  # flags; of files, what is in them
    published: Mapping[str, pa.Table] = field(default_factory=dict)  # earlier tables

    def items(self, log: Log, **more: Any) -> Items:
        """The items of this view's table; of published queries only, once they are published."""
        known = self.published.get("query") if self.kind in FOLLOWING else None
        return items(
            log,
            kind=self.kind,
            unit=self.unit,
            by=self.by,
            gap=self.gap,
            known=None if known is None else known.select(list(keys_of("query", self.by))),
            **more,
        )

    def searches(self, log: Log) -> Any:
        """Every row of the log with its unit: unit, time, query, url."""
        return items(log, kind="query", unit=self.unit, gap=self.gap, also=("url",)).table


class Mechanism(Protocol):
    """Steps that make a table from a log, and the theorem about them.

    The theorem never sees data; the steps never see epsilon. What a mechanism gathers is private
    and exact; everything random about what it publishes happens in `release`.
    """

    tables: ClassVar[tuple[str, ...]]  # the tables it can make
    options: ClassVar[
        tuple[str, ...]
    ]  # what its user may choose: arguments of solve, names of flags
    waits: ClassVar[bool]  # it looks at tables of the same release that were published before
    needs_delta: ClassVar[bool]  # its keys come from the log

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The mechanism that makes this table of the release, and its arguments for `solve`."""

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

    def gather(self, log: Log, view: View, *, entropy: Entropy) -> Any:
        """What `release` needs to know of the log: a tally, as a rule. Never leaves the owner."""

    def release(self, gathered: Any, /, *, entropy: Entropy) -> pa.Table:
        """The published rows: key columns, users, users_stderr, reliable."""

    def passes(self, probability: float) -> int | None:
        """The least true count that is published with at least this probability, if there is one."""

    def least_users(self) -> int | None:
        """The least value the count can have; None if it can be anything."""

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names, for certificates."""

    @staticmethod
    def finish(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """What is done with all tables of the release once they are published values."""


@runtime_checkable
class Limited(Protocol):
    """A mechanism that cannot make every table of its kind."""

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """What the table holds that this mechanism cannot have made of it; None if nothing."""


@runtime_checkable
class Remarking(Protocol):
    """A mechanism whose remarks on a table follow from what is published."""

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """The remarks as they must be; None if they cannot be told."""


@runtime_checkable
class Accounted(Protocol):
    """A mechanism whose cost adds up with others' as a loss, and which can be made for a loss."""

    @classmethod
    def for_loss(cls, loss: Loss, *, d: int, neighbours: str = ..., **options: Any) -> Mechanism:
        """Gaussian noise and thresholds that cost at most this loss."""

    def loss(self, *, neighbours: str = ...) -> Loss:
        """What it costs."""

    def bar(self) -> float:
        """What it asks of an item: of two calibrations the lower one publishes more."""


def fault_of_counts(table: pa.Table, *, count: str | None, least_error: float = 0.0) -> str | None:
    """Counts that were not drawn, or stated errors below those of the noise; None if neither.

    Keys without their counts are always fine: to drop counts is post-processing.
    """
    found = count_of(table)
    if found is None or not table.num_rows:
        return None
    if found != count:
        return f"counts {found}"
    if pc.min(table[f"{found}_stderr"]).as_py() < least_error * (1 - 1e-9):
        return "states smaller errors than its noise has"
    return None


def tallied(
    log: Log, view: View, *, per_user: int, count: str = "users", entropy: Entropy
) -> Tally:
    """How many units hold each item of the view's table, `per_user` items a unit at most."""
    if view.kind == "itemset" and count != "users":
        raise UsageError("sets of queries are held by users, not by rows: leave --count rows out")
    held = view.items(log)
    if view.kind == "itemset":
        n = items_for(per_user, view.set_size, consecutive=view.consecutive)
        kept = bound(held, per_user=n, way=view.way, places=True, entropy=entropy)
        return tally(sets(kept, k=view.set_size, consecutive=view.consecutive))
    return tally(bound(held, per_user=per_user, way=view.way, count=count, entropy=entropy))


def only_its_table(name: str, tables: tuple[str, ...], table: str) -> None:
    """Raises if a mechanism cannot make this table."""
    if table not in tables:
        raise UsageError(
            f"{name} makes no {table} table: it makes {', '.join(tables)}. Change --tables or "
            "--mechanism."
        )


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
        # A mechanism's own text can say inf; whoever asks for a finite number checks that.
        return float(text) if text in ("inf", "nan") else decimal(text)
    except ValueError:
        raise UsageError(f"{given[0]} must be a number, not {text!r}") from None


def check_letters(
    *, d: int | None = None, scales: Sequence[float | None] = (), T: int | None = None
) -> None:
    """Raises unless the numbers are such that noise can be drawn and a claim computed.

    Here, at birth: a limit that shows only while drawing would show after the budget is spent.
    """
    if d is not None and not 1 <= d <= MOST_ITEMS:
        raise UsageError(f"d must lie between 1 and {MOST_ITEMS} items a unit, not {d}")
    for scale in scales:
        if scale is not None and not LEAST_SCALE <= scale <= MOST_SCALE:
            raise UsageError(
                f"a scale of noise must lie between {LEAST_SCALE:g} and 2^40, not {scale!r}"
            )
    if T is not None and T > MOST_THRESHOLD:
        raise UsageError(f"T must be at most 2^40, not {T}")


def least_count(chance: Callable[[int], float], probability: float, *, start: int = 1) -> int:
    """The least n from `start` on with chance(n) >= probability, for a chance that grows with n."""
    low, high = start - 1, max(start, 1)
    while chance(high) < probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if chance(middle) < probability:
            low = middle
        else:
            high = middle
    return max(high, start)


def whole(value: float, name: str) -> int:
    if not math.isfinite(value) or value != int(value):
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def check_bound(tally: Tally, d: int) -> None:
    """Fails closed when the tally was bounded less tightly than the mechanism's theorem needs."""
    if tally.per_user > d:
        raise Refused(
            f"the {tally.kind} tally holds up to {tally.per_user} items a {tally.unit}, the mechanism "
            f"is proved for {d}: bound the log to {d}"
        )

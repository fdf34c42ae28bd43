"""What every mechanism offers, with the defaults that most of them share.

Whatever reads or counts a log is imported inside the steps that need it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.options import GAP, Option
from murmurlog.bundle.schema import By, count_of, keys_of
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms.letters import from_letters, to_parameters, to_text
from murmurlog.privacy import Guarantee, Loss
from murmurlog.privacy.sampler import Entropy

if TYPE_CHECKING:
    from murmurlog.counting.items import Items
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log

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

    def items(self, log: "Log", **more: Any) -> "Items":
        """The items of this view's table; of published queries only, once they are published."""
        from murmurlog.counting.items import items

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

    def searches(self, log: "Log") -> Any:
        """Every row of the log with its unit: unit, time, query, url."""
        from murmurlog.counting.items import items

        return items(log, kind="query", unit=self.unit, gap=self.gap, also=("url",)).table


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a release asks for, as far as the options of its mechanisms need to know."""

    mechanisms: Mapping[str, str]  # the name of each table's
    url: str = "path"  # how much of a url is kept
    by: bool = False


class Mechanism:
    """Steps that make a table from a log, and the claim about them.

    The claim (`solve`, `guarantee`, `parameters`, `passes`, `fault`, `remarks`) never sees data and
    loads no engine: it is all that `verify` needs. The steps (`gather`, `release`) never see epsilon.
    What a mechanism gathers is private and exact; everything random about what it publishes happens
    in `release`.
    """

    name: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]  # the tables it can make
    options: ClassVar[tuple[Option, ...]] = ()  # what its user may choose: keywords, flags
    settings: ClassVar[tuple[str, ...]] = ()  # of the release, which it looks at: set_only, users
    waits: ClassVar[bool] = False  # it looks at tables that the same release published before
    needs_delta: ClassVar[bool] = True  # its keys come from the log
    engines: ClassVar[tuple[str, ...]] = ("duckdb",)
    usual_bound: ClassVar[int] = 10  # items a unit, unless the owner says otherwise
    mixes_units: ClassVar[bool] = False  # an item's fate depends on units that do not hold it
    chosen_by: ClassVar[str] = ""  # how it is asked for, where that is not by its name

    def __str__(self) -> str:
        return to_text(self.name, self)

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From the paper's letters, as written after `--set` or in the mechanism's text."""
        return cls(**from_letters(cls.name, cls, letters))

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """What may be chosen, and what it looks at besides."""
        return frozenset((*(option.name for option in cls.options), *cls.settings))

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The mechanism that makes this table of the release, and its arguments for `solve`."""
        if cls.chosen_by:
            raise UsageError(f"{cls.name} is chosen by {cls.chosen_by}")
        return cls.name, {o.name: options[o.name] for o in cls.options if o.name in options}

    @classmethod
    def solve(cls, *args: Any, **keywords: Any) -> Self:
        """The parameters that keep (epsilon, delta): by epsilon, delta, d, neighbours, noise and
        the mechanism's own options."""
        raise NotImplementedError

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """What is proved, at this epsilon or at this delta."""
        raise NotImplementedError

    def gather(self, log: "Log", view: "View", *, entropy: Entropy) -> Any:
        """What `release` needs to know of the log: a tally, as a rule. Never leaves the owner."""
        raise NotImplementedError

    def release(self, gathered: Any, /, *, entropy: Entropy) -> pa.Table:
        """The published rows: key columns, users, users_stderr, reliable."""
        raise NotImplementedError

    def passes(self, probability: float) -> int | None:
        """The least true count that is published with at least this probability, if there is one."""
        return None

    def least_users(self) -> int | None:
        """The least value the count can have; None if it can be anything."""
        return None

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names, for certificates."""
        return to_parameters(self)

    @staticmethod
    def finish(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """What is done with all tables of the release once they are published values."""
        return dict(tables)


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
    log: "Log", view: View, *, per_user: int, count: str = "users", entropy: Entropy
) -> "Tally":
    """How many units hold each item of the view's table, `per_user` items a unit at most."""
    from murmurlog.counting.bound import bound
    from murmurlog.counting.subsequences import items_for, sets
    from murmurlog.counting.tally import tally

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


def check_bound(tally: "Tally", d: int) -> None:
    """Fails closed when the tally was bounded less tightly than the mechanism's theorem needs."""
    if tally.per_user > d:
        raise Refused(
            f"the {tally.kind} tally holds up to {tally.per_user} items a {tally.unit}, the mechanism "
            f"is proved for {d}: bound the log to {d}"
        )

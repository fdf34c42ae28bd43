"""What every mechanism offers, with the defaults that most of them share.

Whatever reads or counts a log is imported inside the steps that need it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.options import GAP, Option
from murmurlog.bundle.schema import By, count_columns, count_of, keys_of
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms.letters import from_letters, to_parameters, to_text
from murmurlog.privacy import ALWAYS, Guarantee, Loss, check_neighbours, noise_sd, sides
from murmurlog.privacy.sampler import Entropy, sampler_delta

if TYPE_CHECKING:
    from murmurlog.counting.bound import Bound, Mask
    from murmurlog.counting.items import ItemFinder, Items
    from murmurlog.counting.public_sets.labels import Labels
    from murmurlog.counting.tally import Tally
    from murmurlog.logs.log import Log
    from murmurlog.logs.text_keys import KeyList

FOLLOWING = ("pair", "click", "session")  # tables that name queries and can be counted after them
# What a unit holds several of: the tables of threshold, rounds, zealous and korolova.
ITEMS = ("keyword", "query", "pair", "click", "itemset")


@dataclass(frozen=True, kw_only=True)
class View:
    """What to count in a log, and the public inputs of a mechanism."""

    kind: str  # the table
    unit: str = "user"
    by: By | None = None
    way: str | None = None  # how units are bounded
    gap: float = GAP  # seconds without a query that end a session
    set_size: int = 2  # itemset: the largest set
    consecutive: bool = False  # itemset: only runs of neighbouring queries
    options: Mapping[str, Any] = field(default_factory=dict)  # flags; for files, their content
    published: Mapping[str, pa.Table] = field(default_factory=dict)  # earlier tables
    # Keys that are public before the release, of each table: never selected, always counted.
    earlier: Mapping[str, pa.Table] = field(default_factory=dict)
    select_from: datetime | None = None  # keys are selected from rows from here on; None: all
    count_from: datetime | None = None  # the same for counts
    say: Callable[[str], None] = field(default=lambda _: None, compare=False, repr=False)

    def finder(
        self,
        log: "Log",
        *,
        longest: int | None = None,
        labels: "Labels | None" = None,
        since: datetime | None = None,
        excluded: "Callable[[], KeyList] | None" = None,
        only: "Callable[[Items], Mask] | None" = None,
    ) -> "ItemFinder":
        """What finds this view's items in a partition: only those of published queries, once there are some."""
        from murmurlog.counting.items import ItemFinder
        from murmurlog.logs.text_keys import KeyList

        queries, published = self.published.get("query"), None
        if queries is not None and self.kind in FOLLOWING:
            columns = queries.select(list(keys_of("query", self.by))).columns
            published = log.partitions.share(KeyList.of(log.text_keys.columns(columns)))
        kind = {"itemset": "query", "log": "click"}.get(self.kind, self.kind)
        return ItemFinder(
            kind=kind, by=self.by, gap=math.floor(self.gap * 1e6), longest=longest, labels=labels,
            published=published, since=since, excluded=excluded, only=only,
        )  # fmt: skip

    def bound(
        self,
        log: "Log",
        *,
        per_user: int,
        entropy: Entropy,
        count: str = "users",
        places: bool = False,
    ) -> "Bound":
        """How this view's units are bounded."""
        from murmurlog.counting.bound import Bound

        return Bound.of(
            per_user, self.way, timed=log.has_times, entropy=entropy, count=count, places=places
        )


@dataclass(frozen=True, kw_only=True)
class OptionContext:
    """The parts of a release request that the options of its mechanisms need."""

    mechanisms: Mapping[str, str]  # by table
    url: str = "path"  # how much of a url is kept
    keys: str | None = None  # the rules for canonical keys, by their name in a certificate
    by: bool = False
    allowed: Callable[[pa.Table], pa.Table] = lambda table: table  # keys that may be published


class Mechanism:
    """Steps that make a table from a log, and the guarantee they have.

    The claim (`solve`, `guarantee`, `parameters`, `passes`, `fault`, `remarks`) never sees data and
    loads no engine: `verify` needs nothing else. The steps (`gather`, `release`) never see epsilon.
    The result of `gather` is private and exact; all randomness is drawn in `release`.
    """

    name: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]  # the tables it can make
    options: ClassVar[tuple[Option, ...]] = ()  # what its user may choose: keywords, flags
    settings: ClassVar[tuple[str, ...]] = ()  # options of the release: set_only, users
    waits: ClassVar[bool] = False  # it reads tables that the same release published before
    waits_for: ClassVar[str] = ""  # the one of them without which it makes nothing
    needs_delta: ClassVar[bool] = True  # its keys come from the log
    engines: ClassVar[tuple[str, ...]] = ("duckdb", "spark")
    ignored: ClassVar[tuple[str, ...]] = ()  # general letters without a meaning for it: d, noise
    usual_bound: ClassVar[int] = 10  # items a unit, unless the owner says otherwise
    composes: ClassVar[bool] = False  # its queries are made of published words, not read
    mixes_units: ClassVar[bool] = False  # whether an item is published depends on other units, too
    takes_windows: ClassVar[bool] = False  # it reads other rows for keys than for counts
    takes_earlier: ClassVar[bool] = False  # it works with keys that are public (View.earlier)
    chosen_by: ClassVar[str] = ""  # the flags that select it, if --mechanism NAME does not

    def __str__(self) -> str:
        return to_text(self.name, self)

    @classmethod
    def from_letters(cls, letters: dict[str, str]) -> Self:
        """From the paper's letters, as written after `--set` or in the mechanism's text."""
        used = {letter: text for letter, text in letters.items() if letter not in cls.ignored}
        return cls(**from_letters(cls.name, cls, used))

    @classmethod
    def page(cls) -> str:
        """Its page in docs/explanation/mechanisms."""
        return f"{cls.name}.md"

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """The names of its options and of the settings it reads."""
        return frozenset((*(option.name for option in cls.options), *cls.settings))

    @classmethod
    def for_table(cls, table: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The mechanism that makes this table of the release, and its arguments for `solve`."""
        if cls.chosen_by:
            raise UsageError(f"{cls.name} is chosen by {cls.chosen_by}")
        return cls.name, {o.name: options[o.name] for o in cls.options if o.name in options}

    @classmethod
    def solve(cls, *args: Any, **keywords: Any) -> Self:
        """The parameters that keep (epsilon, delta), given epsilon, delta, d, neighbours, noise and
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
        """What `release` needs from the log, usually a tally. Never published."""
        raise NotImplementedError

    def release(self, gathered: Any, /, *, entropy: Entropy) -> pa.Table:
        """The published rows: key columns, users, users_stderr, reliable."""
        raise NotImplementedError

    def passes(self, probability: float) -> int | None:
        """The least true count that is published with at least this probability; None if none is."""
        return None

    def least_users(self) -> int | None:
        """The least value of the count column; None if it has no bound."""
        return None

    def parameters(self) -> dict[str, Any]:
        """The parameters by their full names, for certificates."""
        return to_parameters(self)

    def public_file(self) -> str | None:
        """The option that names the public file without which it cannot be run again."""
        return None

    @staticmethod
    def finish(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Post-processes the tables of the release."""
        return dict(tables)


class Unprotected(Mechanism):
    """A mechanism without a guarantee, for comparison."""

    engines: ClassVar[tuple[str, ...]] = ("duckdb",)

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        return Guarantee.nothing(unit=unit, neighbours=neighbours)


class Pure(Mechanism):
    """Noisy counts of all keys of a public set: pure epsilon-DP, whatever the threshold is."""

    needs_delta: ClassVar[bool] = False
    public: ClassVar[str]  # the assumption about the set

    def guarantee(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: str = "user",
        neighbours: str = "add-remove",
    ) -> Guarantee:
        """(c d / b, 0), but for the sampler's own error."""
        check_neighbours(neighbours)
        numbers = self.parameters()
        cost = sides(neighbours) * numbers["per_user"] / numbers["scale"]
        epsilon = check_epsilon(self, epsilon, cost=cost, unit=unit)
        return Guarantee(
            epsilon=epsilon,
            delta=min(1.0, sampler_delta(scale=numbers["scale"], epsilon=epsilon)),
            unit=unit,
            neighbours=neighbours,
            assumptions=tuple(sorted((*ALWAYS, "A1", self.public))),
        )


@runtime_checkable
class Limited(Protocol):
    """A mechanism that recognises some tables that it cannot have made."""

    def fault(self, table: pa.Table, others: Mapping[str, pa.Table]) -> str | None:
        """Why the mechanism cannot have made this table; None if it can."""


@runtime_checkable
class Remarking(Protocol):
    """A mechanism whose remarks on a table follow from what is published."""

    def remarks(self, table: pa.Table, others: Mapping[str, pa.Table]) -> dict[str, Any] | None:
        """The remarks that must be published with the table; None if they cannot be derived."""


@runtime_checkable
class Accounted(Protocol):
    """A mechanism whose cost composes with others' as a loss, and which can be solved for a loss."""

    @classmethod
    def for_loss(cls, loss: Loss, *, d: int, neighbours: str = ..., **options: Any) -> Mechanism:
        """Gaussian noise and thresholds that cost at most this loss."""

    def loss(self, *, neighbours: str = ...) -> Loss:
        """What it costs."""

    def needed_weight(self) -> float:
        """What an item needs to be published: of two calibrations the lower one publishes more."""


def fault_of_counts(table: pa.Table, *, count: str | None, least_error: float = 0.0) -> str | None:
    """A count column of the wrong kind, or stated errors below those of the noise; None if neither.

    A table without counts is always fine: dropping counts is post-processing.
    """
    column = count_of(table)
    if column is None or not table.num_rows:
        return None
    if column != count:
        return f"counts {column}"
    if pc.min(table[f"{column}_stderr"]).as_py() < least_error * (1 - 1e-9):
        return "states smaller errors than its noise has"
    return None


def tally_view(
    log: "Log",
    view: View,
    *,
    per_user: int,
    count: str = "users",
    entropy: Entropy,
    only: "Callable[[Items], Mask] | None" = None,
) -> "Tally":
    """How many units hold each item of the view's table, `per_user` items a unit at most."""
    from murmurlog.counting.subsequences import Sets, items_for, sets_of
    from murmurlog.counting.tally import tally

    finder, sets = view.finder(log, only=only), None
    if view.kind == "itemset":
        if count != "users":
            raise UsageError(
                "sets of queries are held by users, not by rows: leave --count rows out"
            )
        sets = Sets(size=view.set_size, consecutive=view.consecutive)
        n = items_for(per_user, view.set_size, consecutive=view.consecutive)
        bound = view.bound(log, per_user=n, entropy=entropy, places=True)
        per_user = sets_of(n, view.set_size, consecutive=view.consecutive)
    else:
        bound = view.bound(log, per_user=per_user, count=count, entropy=entropy)
    return tally(
        log, finder, bound, then=sets, kind=view.kind, keys=keys_of(view.kind, view.by),
        per_user=per_user, count=count,
    )  # fmt: skip


def check_epsilon(mechanism: Mechanism, epsilon: float | None, *, cost: float, unit: str) -> float:
    """The epsilon to state: the cost, or a larger value if one is given; raises if it is smaller."""
    if epsilon is not None and epsilon < cost:
        raise Refused(f"{mechanism} costs epsilon {cost:.9g} per {unit}, more than {epsilon:.9g}")
    return cost if epsilon is None else epsilon


def below_sampler(delta: float, epsilon: float) -> UsageError:
    """The error for a delta that the sampler's own error exceeds."""
    return UsageError(
        f"delta {delta!r} is below what the noise sampler can certify at epsilon {epsilon:.4g}: use a "
        "larger delta (1e-12 is enough for epsilon up to 1) or a smaller epsilon"
    )


Solved = TypeVar("Solved", bound=Mechanism)


def solve_within(
    solve: Callable[[float], Solved], *, epsilon: float, delta: float, neighbours: str
) -> Solved:
    """What `solve` gives for delta, or for less of it if the sampler's own error needs the rest."""
    left = delta
    for _ in range(2):  # that error depends slightly on the scales and on delta
        mechanism = solve(left)
        if mechanism.guarantee(epsilon=epsilon, neighbours=neighbours).delta <= delta:
            return mechanism
        left = delta - 1.1 * sampler_delta(scale=mechanism.parameters()["scale"], epsilon=epsilon)
        if left <= delta / 2:
            break
    raise below_sampler(delta, epsilon)


def check_noise_kind(mechanism: str, noise: str | None, only: str = "geometric") -> None:
    """Raises if another noise is given than the only one that the mechanism draws."""
    if noise not in (None, only):
        raise UsageError(f"{mechanism} draws {only} noise only, not {noise!r}")


def with_counts(
    keys: pa.Table | pa.RecordBatch,
    noisy: npt.NDArray[np.int64],
    *,
    stderr: float | npt.NDArray[np.floating[Any]],
    count: str = "users",
    reliable: npt.NDArray[np.bool_] | None = None,
) -> Any:
    """The keys with their counts, standard errors and whether the counts are reliable.

    By default a count is reliable if its relative standard error is at most a quarter.
    """
    errors = np.full(len(noisy), stderr, np.float64)
    columns = (noisy, errors, 4 * errors <= noisy if reliable is None else reliable)
    for (name, kind), column in zip(count_columns(count).items(), columns, strict=True):
        keys = keys.append_column(pa.field(name, kind), pa.array(column, kind))
    return keys


def with_noise_error(
    keys: pa.Table | pa.RecordBatch,
    noisy: npt.NDArray[np.int64],
    *,
    noise: str = "geometric",
    scale: float,
    count: str = "users",
) -> Any:
    """The keys with unbiased noisy counts, whose standard error is that of the noise."""
    return with_counts(keys, noisy, stderr=noise_sd(noise=noise, scale=scale), count=count)


def check_table(name: str, tables: tuple[str, ...], table: str) -> None:
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

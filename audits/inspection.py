"""White-box checks that need no attack: the noise of every stage, the stated totals, bounds and reading.

They look at the steps of a mechanism by its printed text (`noise_stages`, `independent_total`), and at the steps
before it (`product_fuzz`, `reading_replay`). Each returns faults; those of the noise also state the smallest
deviation that they would have shown.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from independent_total import check_total
from ledger_replay import check_ledger
from pool_keys_probe import check_pool_keys
from pool_probe import pool_options, probe_pools
from product_fuzz import check_partitions
from reading_replay import check_by, check_distinct, check_reading, check_screen
from rounds_replay import check_count_weights
from series_replay import check_series
from stage_probe import StageResult, probe_stages

from murmurlog.auditing.settings import Setting
from murmurlog.mechanisms import MECHANISMS, Mechanism, Rounds, find_mechanism
from murmurlog.mechanisms.protocol import Unprotected
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.plan import Plan, plan, plan_tables

STAGES, PATHS = "stages of the noise", "reading and bounds in any partitions"
POOLS, LEDGER = "public pools and earlier keys", "the ledger"
# Tables of several mechanisms' own stages. Pools and public lists are tested where they are attacked.
TABLES = ("query", "click", "pair", "session", "log")
MEASURED = "together,rank,hour,count"
COUNTING = ("threshold", "rounds", "korolova", "zealous")  # count queries of the log itself
BUDGETS = ((1.0, 1e-6), (8.0, 1e-2))


def stage_setting(mechanism: str, *, noise: str | None) -> Setting | None:
    """The tables whose stages are tested, at a budget that needs few users; None if there are none."""
    if mechanism not in MECHANISMS or mechanism in ("pool", "hong"):
        return None
    kind = find_mechanism(mechanism)
    if issubclass(kind, Unprotected):  # it states no noise
        return None
    tables = tuple(table for table in TABLES if table in kind.tables)
    if mechanism in ("zealous", "korolova"):
        tables = ("query",)
    elif mechanism == "sessions":
        tables = ("session",)
    if not tables or kind.chosen_by:
        return None
    options = {"measure": MEASURED} if mechanism == "synthetic" else {}
    return Setting(
        name=STAGES, mechanism=mechanism, epsilon=BUDGETS[1][0], delta=BUDGETS[1][1], per_user=2,
        tables=(*tables, *(("left_out",) if "query" in tables else ())), noise=noise,
        options=options,
    )  # fmt: skip


def pool_setting(mechanism: str) -> Setting | None:
    """The mechanism with a public pool, and keys of an earlier release; None if it takes neither."""
    if mechanism != "rounds":
        return None
    return Setting(
        name=POOLS, mechanism=mechanism, epsilon=BUDGETS[1][0], delta=BUDGETS[1][1], per_user=2,
        options=pool_options(),
    )  # fmt: skip


def ledger_setting(mechanism: str) -> Setting:
    """The ledger that books the releases of every mechanism."""
    return Setting(name=LEDGER, mechanism=mechanism, epsilon=BUDGETS[1][0], delta=BUDGETS[1][1])


def path_setting(mechanism: str) -> Setting:
    """The mechanism whose counting is replayed on every path of reading and bounding."""
    return Setting(name=PATHS, mechanism=mechanism, epsilon=BUDGETS[1][0], delta=BUDGETS[1][1])


def plans_of(
    setting: Setting, *, epsilon: float, delta: float, neighbours: str = "add-remove"
) -> tuple[dict[str, Plan], Any]:
    """The plans of a stage setting at a budget."""
    return plan_tables(
        setting.tables,
        mechanism=setting.mechanism,
        epsilon=epsilon,
        delta=delta,
        per_user=dict.fromkeys(setting.tables, 2),
        noise=setting.noise,
        neighbours=neighbours,
        options=setting.options,
    )


def inspect_totals(setting: Setting) -> list[str]:
    """Compares the guarantees of plans with those that follow from the printed texts, without any log."""
    found = []
    for epsilon, delta in BUDGETS:
        for neighbours in ("add-remove", "replace"):
            plans, total = plans_of(setting, epsilon=epsilon, delta=delta, neighbours=neighbours)
            found += check_total(
                {table: str(plan.mechanism) for table, plan in plans.items()},
                {table: plan.guarantee for table, plan in plans.items()},
                total,
            )
    return found


def inspect_stages(
    setting: Setting, *, folder: Path, entropy: Entropy, say: Callable[[str], None]
) -> StageResult:
    """Tests the noise of every stage of the setting's tables."""
    plans, _ = plans_of(setting, epsilon=setting.epsilon, delta=setting.delta)
    mechanisms: Mapping[str, Mechanism] = {t: plan.mechanism for t, plan in plans.items()}
    if setting.name != POOLS:
        return probe_stages(mechanisms, folder=folder, entropy=entropy, say=say)
    (mechanism,) = mechanisms.values()
    assert isinstance(mechanism, Rounds)
    found = probe_pools(mechanism, setting.options, folder=folder, entropy=entropy, say=say)
    found.faults += check_count_weights()
    return found


def inspect_ledger(*, folder: Path, entropy: Entropy) -> list[str]:
    """Charges on a ledger against a second account; releases in a row against what the ledger says of them."""
    return [*check_ledger(folder, entropy=entropy), *check_series(folder)]


def inspect_paths(mechanisms: Sequence[str], *, folder: Path) -> list[str]:
    """Replays reading and the bound in any partitions, with the counting of these mechanisms."""
    found = [
        *check_partitions(folder),
        *check_reading(folder),
        *check_screen(folder),
    ]
    for name in mechanisms:
        if name in COUNTING:
            made = plan(mechanism=name, epsilon=BUDGETS[1][0], delta=BUDGETS[1][1], per_user=4)
            found += check_distinct(made.mechanism, "query", folder)
        if name == "pool":
            found += check_pool_keys(folder)
        found += check_by(name, folder)
    return found

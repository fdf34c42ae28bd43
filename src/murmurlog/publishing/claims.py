"""Guarantees that a release refuses, or accepts on its owner's word only. Looks at no log."""

from collections.abc import Mapping

from murmurlog.errors import Refused, UsageError
from murmurlog.privacy import SAFETY, Guarantee
from murmurlog.publishing.plan import Plan


def check_guarantee(total: Guarantee, mechanism: str, accepted: bool) -> None:
    """Refuses what nothing is proved about, unless the owner says so."""
    if total.notion != "none" and total.delta >= 1:
        raise Refused(
            f"{mechanism} would have a delta of 1 at epsilon {total.epsilon:.4g}: nothing"
        )
    if total.notion == "none" and not accepted:
        raise Refused(
            f"{mechanism} has no privacy guarantee: one person can make its output differ for sure. "
            "It is here for comparison. Say --accept-no-guarantee to run it, and do not publish it."
        )


def check_budget_kept(proved: Guarantee, epsilon: float | None, delta: float | None) -> None:
    """Refuses a guarantee that is weaker than the one that was asked for; None: not asked for."""
    if proved.notion == "none":
        return  # accepted by its owner, or refused for that
    for name, cost, most in (("epsilon", proved.epsilon, epsilon), ("delta", proved.delta, delta)):
        if most is not None and cost > most * SAFETY**2:
            raise Refused(
                f"these parameters have {name} {cost:.6g} per {proved.unit}, more than --{name} {most:.6g}: "
                f"change them, raise --{name}, or leave it out to accept what follows from them"
            )


def check_pdp(plans: Mapping[str, Plan], users: int | None, set_only: bool) -> None:
    """Probabilistic DP is about a declared number of users, and about tables as they are drawn."""
    for each in plans.values():
        if each.mechanism.parameters()["users"] != users:
            raise UsageError(
                f"{each.mechanism} is probabilistic DP for its own number of users: declare the "
                f"same with --users, which is {users or 'not given'}"
            )
    if set_only:
        raise UsageError(
            "probabilistic DP does not survive dropping counts, so --set-only does not go with it. Use "
            "--notion dp."
        )


def check_delta(total: Guarantee, asked: float | None, users: int | None, accepted: bool) -> None:
    """Refuses a delta of 1/users or more; only a declared number counts, the log's is private."""
    if users is None:
        return
    if users < 1:
        raise UsageError(f"--users must be at least 1, not {users}")
    if total.notion == "none":
        return
    delta = max(total.plain_delta, (asked or 0.0) if total.notion == "dp" else 0.0)
    if delta * users >= 1 and not accepted:
        raise Refused(
            f"delta {delta:.3g} per {total.unit} is at least 1/users for the declared {users} "
            "users: publishing one whole user at random would pass. Use --delta "
            f"{1 / users / 10:.1g} or less, or say --accept-delta."
        )

"""The columns of a log that decide what a unit is, as a ledger books them.

Only names are compared, inside the transaction that books; names are schema, and public.
"""

from collections.abc import Mapping, Sequence

from murmurlog.errors import Refused
from murmurlog.publishing.ledger_names import MOST_NAMES
from murmurlog.publishing.ledger_records import Entry


def columns_of(entries: Sequence[Entry], role: str) -> list[str]:
    """The columns of a role by which releases were booked, the first one first."""
    return list(dict.fromkeys(e.columns[role] for e in entries if role in e.columns))


def check_columns(
    entries: Sequence[Entry], source: str, columns: Mapping[str, str], same_users: bool
) -> None:
    """Raises Refused if a column that decides what a unit is has another name than in earlier releases.

    An account may have ten cookies: ten units of a release by cookie would be one of a release by account.
    """
    of_source = [entry for entry in entries if entry.source == source]
    for role, column in columns.items():
        booked = columns_of(of_source, role)
        if booked and column not in booked and not same_users:
            names = " and ".join(f"{name!r:.60}" for name in booked[:MOST_NAMES])
            raise Refused(
                f'releases of source "{source}" are booked by the {role} column {names}, and this one is by '
                f"{column!r:.60}: their costs add up only if both name the same {role}s. Nothing was booked.\n"
                f"  Name the same column: --columns {role}=... If the owner knows that they do, give --same-users."
            )

"""Starts a series: checks its description against the ledger, sets the cap, writes the file."""

from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path

from murmurlog.errors import UsageError
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_file import usual_ledger
from murmurlog.publishing.ledger_names import check_new
from murmurlog.publishing.series_spec import (
    LEDGER,
    SeriesOptions,
    Spec,
    check_spec_target,
    spec_of,
    write_spec,
)


@dataclass(frozen=True, kw_only=True)
class Started:
    """A series whose file was written."""

    spec: Spec
    cap_set: bool  # whether the ledger had no cap for the source
    known: tuple[str, ...]  # series of the source that the ledger has already


def init_series(
    path: Path,
    said: SeriesOptions,
    *,
    new_source: bool = False,
    reason: str | None = None,
    by_whom: str | None = None,
) -> Started:
    """Writes the file of a series, which must not exist, and sets the cap of its source if it has none.

    A ledger that has sources gets another one only if `new_source` says that it is about other users.
    """
    check_spec_target(path)
    if said.ledger is None:
        said = replace(said, ledger=usual_ledger(path.parent, LEDGER).name)
    spec = spec_of(said)
    with chdir(path.parent):
        book = Ledger(spec.ledger)
        account = book.known(spec.source)
        if account is None and not new_source:
            names = [each.name for each in book.accounts()]
            check_new(spec.source, names, ledger=book.path.name)
        has_cap = account is not None and account.epsilon_cap is not None
        if account is not None and has_cap:
            cap = account.epsilon_cap, account.delta_cap
            asked = said.epsilon or cap[0], said.delta or cap[1]
            if asked != cap:
                raise UsageError(
                    f'source "{spec.source}" has a cap of epsilon {cap[0]:.6g}, delta {cap[1]:.3g}: leave --epsilon '
                    "and --delta out, or change it with murmurlog ledger cap"
                )
            assert cap[0] is not None
            assert cap[1] is not None
            spec = replace(spec, epsilon=cap[0], delta=cap[1])
        elif said.epsilon is None or said.delta is None:
            raise UsageError(
                f'source "{spec.source}" has no cap in {book.path.name}: give --epsilon and --delta for all releases '
                "together, and --reason"
            )
        elif not reason:
            raise UsageError(
                f'init sets the cap of source "{spec.source}", and the ledger keeps why: give --reason'
            )
        else:
            book.cap(
                spec.source, epsilon=said.epsilon, delta=said.delta, reason=reason, by_whom=by_whom,
                pure=0.0,  # a series has Gaussian noise only, and wants all of the cap for it
                new_source=new_source,
            )  # fmt: skip
        series = [entry.series for entry in book.entries(spec.source) if entry.series]
    write_spec(spec, path)
    return Started(spec=spec, cap_set=not has_cap, known=tuple(dict.fromkeys(series)))

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
    series: tuple[str, ...]  # series of the source that the ledger has already


def init_series(
    path: Path,
    options: SeriesOptions,
    *,
    new_source: bool = False,
    reason: str | None = None,
    by_whom: str | None = None,
) -> Started:
    """Writes the file of a series, which must not exist, and sets the cap of its source if it has none.

    A ledger that has sources gets another one only if `new_source` says that it is about other users.
    """
    check_spec_target(path)
    if options.ledger is None:
        options = replace(options, ledger=usual_ledger(path.parent, LEDGER).name)
    spec = spec_of(options)
    with chdir(path.parent):
        ledger = Ledger(spec.ledger)
        account = ledger.find_account(spec.source)
        if account is None and not new_source:
            names = [other.name for other in ledger.accounts()]
            check_new(spec.source, names, ledger=ledger.path.name)
        has_cap = account is not None and account.epsilon_cap is not None
        if account is not None and has_cap:
            cap = account.epsilon_cap, account.delta_cap
            requested = options.epsilon or cap[0], options.delta or cap[1]
            if requested != cap:
                raise UsageError(
                    f'source "{spec.source}" has a cap of epsilon {cap[0]:.6g}, delta {cap[1]:.3g}: leave --epsilon '
                    "and --delta out, or change it with murmurlog ledger cap"
                )
            assert cap[0] is not None
            assert cap[1] is not None
            spec = replace(spec, epsilon=cap[0], delta=cap[1])
        elif options.epsilon is None or options.delta is None:
            raise UsageError(
                f'source "{spec.source}" has no cap in {ledger.path.name}: give --epsilon and --delta for all releases '
                "together, and --reason"
            )
        elif not reason:
            raise UsageError(
                f'init sets the cap of source "{spec.source}", and the ledger keeps why: give --reason'
            )
        else:
            ledger.cap(
                spec.source, epsilon=options.epsilon, delta=options.delta, reason=reason, by_whom=by_whom,
                pure=0.0,  # a series has Gaussian noise only, and wants all of the cap for it
                new_source=new_source,
            )  # fmt: skip
        series = [entry.series for entry in ledger.entries(spec.source) if entry.series]
    write_spec(spec, path)
    return Started(spec=spec, cap_set=not has_cap, series=tuple(dict.fromkeys(series)))

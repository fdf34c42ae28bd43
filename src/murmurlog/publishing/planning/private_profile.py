"""The private profile: measures the outline of a log under a guarantee and books its cost.

As in a release, order matters: everything that can fail without drawing noise comes before the
reservation; after it the budget is spent, whatever happens.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.options import split_keywords
from murmurlog.bundle.scratch import scratch, settle
from murmurlog.bundle.write import check_target
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import check
from murmurlog.errors import DiskError, UsageError
from murmurlog.logs.engines.duckdb import check_memory, connect
from murmurlog.logs.inputs import LogSource, local_source
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import Entropy, SystemEntropy, sampler_distance
from murmurlog.publishing.booking import check_noise, open_ledger, unit_columns
from murmurlog.publishing.ledger import committing
from murmurlog.publishing.plan import DELTA
from murmurlog.publishing.planning.outline import Outline, measure
from murmurlog.publishing.planning.outline_counts import check_kind, count
from murmurlog.publishing.planning.outline_noise import Measurement
from murmurlog.publishing.planning.profile_options import Measured, ProfileOptions
from murmurlog.publishing.request import Booking
from murmurlog.publishing.spending import Spending, spending


@dataclass(frozen=True, kw_only=True)
class Survey:
    """An outline, the public parameters of reading the log, and whether it was booked."""

    outline: Outline
    shape: str
    columns: Mapping[str, str]
    text: Mapping[str, Any]
    release_id: str
    booked: bool

    def as_json(self) -> dict[str, Any]:
        """The outline as printed and written; it holds no exact figures."""
        return self.outline.as_json() | {
            "shape": self.shape,
            "columns": dict(self.columns),
            "text": dict(self.text),
            "release_id": self.release_id,
            "booked": self.booked,
        }


@dataclass(frozen=True, kw_only=True)
class ProfileRequest:
    """The request for a private profile."""

    source: LogSource
    out: str | Path | None = None
    privacy: Measured
    profile: ProfileOptions = ProfileOptions()
    read: ReadOptions = ReadOptions()
    booking: Booking = Booking()
    memory: str | None = None


def survey(
    source: LogSource,
    *,
    epsilon: float,
    out: str | Path | None = None,
    memory: str | None = None,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
    **keywords: Any,
) -> Survey:
    """Measures the outline of a log, writes it to `out` and books it.

    `keywords` are named as the flags of `murmurlog profile` are.
    """
    groups = (Measured, ProfileOptions, ReadOptions, Booking)
    (privacy, profile, read, booking), others = split_keywords(keywords, *groups)
    if others:
        raise UsageError(f"a profile has no option {', '.join(sorted(others))}")
    request = ProfileRequest(
        source=source,
        out=out,
        privacy=Measured(epsilon=epsilon, **privacy),
        profile=ProfileOptions(**profile),
        read=ReadOptions(**read),
        booking=Booking(**booking),
        memory=memory,
    )
    return carry_out(request, entropy=entropy, say=say)


def carry_out(
    request: ProfileRequest,
    *,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Survey:
    """Measures, books and writes the requested private profile.

    Rows are read and cleaned as for a release. The file appears whole or not at all. With a ledger
    the cost is reserved before any noise is drawn; from then on it stays spent.
    """
    with ExitStack() as copies:
        return _carry_out(request, copies, entropy=entropy or SystemEntropy(), say=say)


def _carry_out(
    request: ProfileRequest, copies: ExitStack, *, entropy: Entropy, say: Callable[[str], None]
) -> Survey:
    target = None if request.out is None else Path(request.out)
    if target:
        check_target(target)
    privacy, kind, per_user = request.privacy, request.profile.kind, request.profile.per_user
    read, unit, neighbours = request.read, privacy.unit, privacy.neighbours
    check_url_level(read.url)
    check_memory(request.memory)
    check_kind(kind)
    if privacy.epsilon is None:
        raise UsageError("a private profile needs an epsilon")
    delta = DELTA if privacy.delta is None else privacy.delta
    noise = Measurement.solve(
        epsilon=privacy.epsilon, delta=delta, d=per_user, neighbours=neighbours
    )
    guarantee = noise.guarantee(epsilon=privacy.epsilon, unit=unit, neighbours=neighbours)
    booking = request.booking
    book, name = open_ledger(booking)
    check_noise(entropy, book)
    reading = Reading.of(read)
    path = copies.enter_context(local_source(request.source, read, say=say))
    found = find(path, read)
    cost: dict[str, Any] = {
        "loss": noise.loss(neighbours=neighbours),
        "distance": sampler_distance(noise.largest()),
        "new_source": booking.new_source,
        "same_users": booking.same_users,
        "columns": unit_columns(unit, found),
    }
    if book:
        book.check(name, guarantee, **cost)
    check(found, kind=kind, unit=unit)
    way = choose_way(request.profile.bound, timed="time" in found.columns)
    reading.check(found)
    release_id = SystemEntropy().bytes(16).hex()
    begun = Spending(
        book=book, release_id=release_id, out=str(target),
        published=target.exists if target else None,
    )  # fmt: skip
    with spending(begun):
        with connect(memory=request.memory) as engine:
            log = reading.read(
                found, engine=engine, urls=kind == "click", say=_without_warnings(say)
            )
            say(f"counting {kind}")
            counted = count(log, kind=kind, unit=unit, per_user=per_user, way=way, entropy=entropy)
        if book:  # from here on the budget is spent
            book.reserve(name, guarantee, release_id=release_id, what=f"{kind}: {noise}", **cost)
        outline = measure(
            counted, noise, epsilon=privacy.epsilon, neighbours=neighbours, entropy=entropy
        )
        made = Survey(
            outline=outline,
            shape=found.shape,
            columns=found.columns,
            text=reading.as_json() | {"bound": way},
            release_id=release_id,
            booked=book is not None,
        )
        with committing(book, release_id, published=target.exists if target else bool) as commit:
            if target:
                _write(made, target, ready=commit)
            else:
                commit()
    return made


def _without_warnings(say: Callable[[str], None]) -> Callable[[str], None]:
    """Says all but warnings, which hold exact counts: what a private profile prints is passed on."""
    return lambda text: None if text.startswith("warning: ") else say(text)


def _write(made: Survey, target: Path, *, ready: Callable[[], None]) -> None:
    """The file, whole or not at all; `ready` is called just before it appears."""
    try:
        with scratch(target.parent) as folder:
            path = folder / "outline.json"
            text = json.dumps(made.as_json(), indent=2, ensure_ascii=False) + "\n"
            path.write_text(text, encoding="utf-8")
            check_target(target)
            settle(path, target, ready=ready)
    except OSError as error:
        spent = f"; its budget stays booked as {made.release_id}" if made.booked else ""
        raise DiskError(
            f"the outline could not be written to {str(target)!r} ({error.strerror}){spent}. Free "
            "some room or choose another --out, and measure again."
        ) from error

"""The private profile: from a log to an outline under a guarantee, booked as a release is.

Order matters, as on the road of a release: all that can fail without drawing noise comes before the
reservation; after it the budget is spent, whatever happens.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmurlog.bundle.bundle import check_target
from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.options import GAP
from murmurlog.bundle.scratch import scratch, settle
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import check
from murmurlog.errors import DiskError
from murmurlog.logs.engines.duckdb import check_memory, connect
from murmurlog.logs.reading import Reading
from murmurlog.logs.screen import load, load_deny
from murmurlog.logs.source import find
from murmurlog.privacy.sampler import Entropy, SystemEntropy
from murmurlog.publishing.ledger import committing, opened
from murmurlog.publishing.plan import DELTA
from murmurlog.publishing.planning.outline import Outline, measure
from murmurlog.publishing.planning.outline_counts import PER_USER, check_kind, count
from murmurlog.publishing.planning.outline_noise import Measurement


@dataclass(frozen=True, kw_only=True)
class Survey:
    """An outline, what was read how (public parameters), and what became of it."""

    outline: Outline
    shape: str
    columns: Mapping[str, str]
    text: Mapping[str, Any]
    release_id: str
    booked: bool

    def as_json(self) -> dict[str, Any]:
        """What is printed and written; nothing of it is exact."""
        return self.outline.as_json() | {
            "shape": self.shape,
            "columns": dict(self.columns),
            "text": dict(self.text),
            "release_id": self.release_id,
            "booked": self.booked,
        }


def survey(
    source: str,
    *,
    epsilon: float,
    delta: float | None = None,
    kind: str = "query",
    per_user: int = PER_USER,
    bound: str | None = None,
    unit: str = "user",
    neighbours: str = "add-remove",
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    shape: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    url: str = "path",
    screen: bool = True,
    patterns: str | Path | None = None,
    deny: str | Path | None = None,
    strict: bool = False,
    ledger: str | Path | None = None,
    source_name: str | None = None,
    out: str | Path | None = None,
    memory: str | None = None,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Survey:
    """Measures the outline of a log, writes it to `out` and books it.

    Rows are read and cleaned as for a release. The file appears whole or not at all. With a ledger
    the cost is reserved before any noise is drawn; from then on it stays spent.
    """
    entropy = entropy or SystemEntropy()
    target = None if out is None else Path(out)
    if target:
        check_target(target)
    check_url_level(url)
    check_memory(memory)
    check_kind(kind)
    delta = DELTA if delta is None else delta
    noise = Measurement.solve(epsilon=epsilon, delta=delta, d=per_user, neighbours=neighbours)
    guarantee = noise.guarantee(epsilon=epsilon, unit=unit, neighbours=neighbours)
    book, _ = opened(ledger, source_name)
    reading = Reading(
        url=url,
        since=since,
        until=until,
        where=where,
        screen=load(Path(patterns) if patterns else None) if screen else None,
        deny=load_deny(Path(deny)) if deny else frozenset(),
        strict=strict,
    )
    booked_unit = reading.unit(unit, gap=GAP)
    if book:
        book.check(str(source_name), guarantee, unit=booked_unit)
    found = find(source, columns=columns, encoding=encoding, shape=shape)
    check(found, kind=kind, unit=unit)
    way = choose_way(bound, timed="time" in found.columns)
    reading.check(found)
    release_id = SystemEntropy().bytes(16).hex()
    with connect(memory=memory) as engine:
        log = reading.read(found, engine=engine, urls=kind == "click", say=say)
        say(f"counting {kind}")
        counted = count(log, kind=kind, unit=unit, per_user=per_user, way=way, entropy=entropy)
    if book:  # from here on the budget is spent
        book.reserve(
            str(source_name),
            guarantee,
            release_id=release_id,
            what=f"{kind}: {noise}",
            unit=booked_unit,
        )
    outline = measure(counted, noise, epsilon=epsilon, neighbours=neighbours, entropy=entropy)
    made = Survey(
        outline=outline,
        shape=found.shape,
        columns=found.columns,
        text=reading.as_json() | {"bound": way},
        release_id=release_id,
        booked=book is not None,
    )
    with committing(book, release_id) as commit:
        if target:
            _write(made, target, ready=commit)
        else:
            commit()
    return made


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

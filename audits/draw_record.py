"""Records every draw of the sampler while a release runs, and compares it with the printed mechanisms.

Only an audit replaces a function of the sampler, and only in its own process: the sampler itself has no
switch that would reveal noise.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from noise_stages import STAGE_ALPHA, Integers, Law, Stage
from replacement import replaced

from murmurlog.privacy import sampler

MOST_RECORDED = 200_000  # draws of one call that are kept: more add no power that anybody needs


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The draws of one call: their law as the caller asked for it, and the values."""

    noise: str
    scale: float
    values: Integers


@dataclass(frozen=True, kw_only=True)
class StagePower:
    """How many draws of a stage were tested, and the smallest deviation that they would have shown."""

    table: str
    stage: str
    draws: int
    smallest: float

    def as_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "stage": self.stage,
            "draws": self.draws,
            "smallest_deviation_at_99_percent": round(self.smallest, 4),
        }


@contextmanager
def recorded_draws() -> Iterator[list[Draws]]:
    """While this lasts, the list grows with every draw of this process."""
    found: list[Draws] = []
    draw_batch: Callable[..., Integers] = sampler._draw_batch

    def record(noise: str, scale: float, *rest: Any) -> Integers:
        made = draw_batch(noise, scale, *rest)
        found.append(Draws(noise=noise, scale=scale, values=made[:MOST_RECORDED].copy()))
        return made

    with replaced(sampler, "_draw_batch", record):
        yield found


def check_draws(stages: Sequence[Stage], draws: Sequence[Draws]) -> list[str]:
    """One sentence for each law that no printed stage has, and for noise that does not follow its law."""
    unknown: dict[tuple[str, float], int] = {}
    values: dict[tuple[str, float], list[Integers]] = {}
    names: dict[tuple[str, float], list[str]] = {}
    for each in draws:
        noise = "geometric" if each.noise == "tail" else each.noise
        law = (each.noise, each.scale)
        if law not in names:
            names[law] = [
                str(s) for s in stages if any(one.matches(noise, each.scale) for one in s.laws)
            ]
        if names[law]:
            values.setdefault(law, []).append(each.values)
        else:
            unknown[law] = unknown.get(law, 0) + len(each.values)
    faults = [
        f"{many} draws of {noise} noise of scale {scale:.6g}, which no stage of the printed mechanisms has"
        for (noise, scale), many in unknown.items()
        if many
    ]
    for (noise, scale), parts in values.items():
        drawn = np.concatenate(parts)
        if (p := Law(noise=noise, scale=scale).p_value(drawn)) < STAGE_ALPHA:
            faults.append(
                f"{' or '.join(names[noise, scale])}: {len(drawn)} draws are not {noise} noise of scale "
                f"{scale:.6g} (p = {p:.1g})"
            )
    return faults


def check_draw_number(draws: Sequence[Draws], *, needed: int) -> list[str]:
    """One draw for every item, and one for every fresh count: noise that is drawn again has another law."""
    made = sum(len(each.values) for each in draws)
    if made == needed or any(len(each.values) == MOST_RECORDED for each in draws):
        return []
    return [f"{made} draws where the printed mechanism makes {needed}"]

"""The verdict of an audit for its owner: rows for the terminal, and one HTML page without external resources."""

from murmurlog.auditing.figure import draw_intervals
from murmurlog.auditing.measurement import Measurement
from murmurlog.auditing.result import Audit
from murmurlog.charts import pages

Rows = list[tuple[str, ...]]


def attacks_in_rows(audit: Audit) -> Rows:
    """A head and a row for each setting: the best bound, and the power of the attack."""
    rows: Rows = [
        ("setting", "claimed", "delta", "measured at least", "seen from", "own item seen from")
    ]
    powers = {power.setting: power for power in audit.attack_power}
    for name in dict.fromkeys(measurement.setting for measurement in audit.measured):
        best, power = audit.at(name), powers.get(name)
        if best is None:
            continue
        rows.append(
            (name, f"{best.claim:.4g}", f"{best.delta:.2g}", f"{best.least:.2f}",
             "-" if power is None or power.epsilon is None else f"{power.epsilon:.2f}",
             "-" if power is None or power.chance is None else f"{100 * power.chance:.2g} %")
        )  # fmt: skip
    return rows


def verdict_page(audit: Audit) -> str:
    """The whole verdict as one HTML page."""
    best = _best_attacks(audit)
    values = {
        "audit": audit,
        "attacks": attacks_in_rows(audit),
        "not_attacked": [(omission.what, omission.why) for omission in audit.not_attacked],
        "chart": draw_intervals(best, title="epsilon, measured against claimed") if best else "",
        "measurements": _measurement_rows(audit),
    }
    return pages.render("murmurlog.auditing", "audit.html", values)


def _best_attacks(audit: Audit) -> list[Measurement]:
    """The best attack on every pair of every setting."""
    best: dict[tuple[str, str], Measurement] = {}
    for m in audit.measured:
        if m.least > best.setdefault((m.setting, m.pair), m).least:
            best[m.setting, m.pair] = m
    return list(best.values())


def _measurement_rows(audit: Audit) -> Rows:
    """The numbers of the figure."""
    return [
        (m.setting, m.pair, m.method, f"{m.claim:.4g}", f"{m.least:.3f}",
         "" if m.near is None else f"{m.near:.3f}",
         "" if m.most is None else f"{m.most:.3f}")
        for m in audit.measured
    ]  # fmt: skip

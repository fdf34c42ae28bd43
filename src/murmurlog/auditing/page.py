"""The verdict of an audit for its owner: rows for the terminal, and one HTML page without external resources."""

from murmurlog.auditing.figure import Bar, intervals
from murmurlog.auditing.measurement import Measurement
from murmurlog.auditing.result import Audit
from murmurlog.charts import pages

Rows = list[tuple[str, ...]]


def attacks_in_rows(audit: Audit) -> Rows:
    """A head and a row for each setting: the best bound, and what would have been seen."""
    rows: Rows = [
        ("setting", "claimed", "delta", "measured at least", "seen from", "own item seen from")
    ]
    power = {each.setting: each for each in audit.attack_power}
    for name in dict.fromkeys(each.setting for each in audit.measured):
        best, would = audit.at(name), power.get(name)
        if best is None:
            continue
        rows.append(
            (name, f"{best.claim:.4g}", f"{best.delta:.2g}", f"{best.least:.2f}",
             "-" if would is None or would.epsilon is None else f"{would.epsilon:.2f}",
             "-" if would is None or would.shown is None else f"{100 * would.shown:.2g} %")
        )  # fmt: skip
    return rows


def verdict_page(audit: Audit) -> str:
    """The whole verdict as one HTML page."""
    bars = _bars(audit)
    values = {
        "audit": audit,
        "attacks": attacks_in_rows(audit),
        "not_attacked": [(omission.what, omission.why) for omission in audit.not_attacked],
        "chart": intervals(bars, title="epsilon, measured against claimed") if bars else "",
        "measurements": _measurement_rows(audit),
    }
    return pages.render("murmurlog.auditing", "audit.html", values)


def _bars(audit: Audit) -> list[Bar]:
    """The best attack on every pair of every setting."""
    best: dict[tuple[str, str], Measurement] = {}
    for each in audit.measured:
        before = best.setdefault((each.setting, each.pair), each)
        if each.least > before.least:
            best[each.setting, each.pair] = each
    return [
        Bar(label=_label(f"{each.setting}: {each.pair}, {each.way}"), claim=each.claim, least=each.least,
            near=each.near, most=each.most)
        for each in best.values()
    ]  # fmt: skip


def _label(text: str) -> str:
    """A text that fits beside the figure; its end says most."""
    return text if len(text) <= 70 else f"…{text[-69:]}"


def _measurement_rows(audit: Audit) -> Rows:
    """The numbers of the figure."""
    return [
        (each.setting, each.pair, each.way, f"{each.claim:.4g}", f"{each.least:.3f}",
         "" if each.near is None else f"{each.near:.3f}",
         "" if each.most is None else f"{each.most:.3f}")
        for each in audit.measured
    ]  # fmt: skip

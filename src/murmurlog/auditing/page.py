"""The verdict of an audit for its owner: rows for the terminal, and one HTML page without external resources."""

from murmurlog.auditing.figure import Bar, intervals
from murmurlog.auditing.measurement import Measurement
from murmurlog.auditing.result import Audit
from murmurlog.charts.html import banner, captioned, folded, grid, paragraph, printed, section

Rows = list[tuple[str, ...]]

MOST_LETTERS = 400  # of a cell
CAPTION = (
    "The best attack on every pair of logs. A line begins at the least epsilon that is true at this confidence and ends where this attack says no more; "
    "the dashed mark is the claim. A line that begins right of its mark refutes the claim; a line left of it "
    "proves nothing."
)
SEEN = (
    "Seen from: the smallest epsilon that this attack would have shown with a probability of 99 %, if the code had "
    "this epsilon and the two logs differed as much as it allows. Own item: the chance from which on an item "
    "that one user alone holds would have been seen to be published too often."
)


def attacks_in_rows(made: Audit) -> Rows:
    """A head and a row for each setting: the best bound, and what would have been seen."""
    rows: Rows = [
        ("setting", "claimed", "delta", "measured at least", "seen from", "own item seen from")
    ]
    power = {each.setting: each for each in made.attack_power}
    for name in dict.fromkeys(each.setting for each in made.measured):
        best, would = made.at(name), power.get(name)
        if best is None:
            continue
        rows.append(
            (name, f"{best.claim:.4g}", f"{best.delta:.2g}", f"{best.least:.2f}",
             "-" if would is None or would.epsilon is None else f"{would.epsilon:.2f}",
             "-" if would is None or would.shown is None else f"{100 * would.shown:.2g} %")
        )  # fmt: skip
    return rows


def verdict_page(made: Audit) -> str:
    """The whole verdict as one HTML page."""
    claim = made.claim
    attacks = attacks_in_rows(made)
    parts = [banner(text) for text in made.violations]
    parts.append(
        section(
            "What was attacked",
            grid(attacks[0], attacks[1:], numbers=range(1, 6)),
            paragraph(SEEN, "note"),
            note=f"{made.worlds:,} worlds in {made.releases} releases, each of them one of two logs that differ in "
            f"one {claim.unit}; {made.tests} tests. All bounds hold together at {100 * made.confidence:g} %.",
        )
    )  # fmt: skip
    parts.append(
        section(
            "What was not attacked",
            grid(("not attacked", "because"), [(each.what, each.why) for each in made.not_attacked],
                 wide=(1,), most=MOST_LETTERS),
            note="That no violation was found proves nothing: proofs do, if the code does what they say.",
        )
    )  # fmt: skip
    if made.measured:
        chart = intervals(_bars(made), title="epsilon, measured against claimed")
        parts.append(section("Every attack", captioned(chart, CAPTION), _numbers(made)))
    return printed(
        title=f"Audit of {made.mechanism}",
        kicker="murmurlog audit",
        lead=made.sentence(),
        parts=parts,
        foot=f"Claim: epsilon {claim.epsilon:.4g}, delta {claim.delta:.3g} for each {claim.unit} "
        f"({claim.neighbours}). {made.seconds:.0f} s.",
    )


def _bars(made: Audit) -> list[Bar]:
    """The best attack on every pair of every setting."""
    best: dict[tuple[str, str], Measurement] = {}
    for each in made.measured:
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


def _numbers(made: Audit) -> str:
    """The numbers of the figure, folded."""
    head = ("setting", "pair", "attack", "claimed", "at least", "near", "interval ends at")
    rows = [
        (each.setting, each.pair, each.way, f"{each.claim:.4g}", f"{each.least:.3f}",
         "" if each.near is None else f"{each.near:.3f}",
         "" if each.most is None else f"{each.most:.3f}")
        for each in made.measured
    ]  # fmt: skip
    return folded("The numbers of the figure", grid(head, rows, numbers=range(3, 7)))

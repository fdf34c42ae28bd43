"""Cards as another version of murmurlog might word them."""

from murmurlog.bundle import cards, label, report

OTHER = "0.0.9"  # a version that never was


def word_otherwise(patch):
    """Cards are worded as no version words them; the facts are the same."""
    said = cards.statement
    patch.setattr(cards, "statement", lambda c: said(c).replace("moves anyone's", "changes the"))
    patch.setattr(report, "LEAD", "What is in a log.")
    patch.setattr(report, "caption", lambda views: "How to read it.")
    patch.setattr(cards, "counts_note", lambda certificate: "These are noisy counts.")
    for name in label.PLAIN:
        patch.setitem(label.PLAIN, name, f"In other words: {name}.")

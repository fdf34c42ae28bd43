"""Writes docs/reference/mechanism-options.md from the options that mechanisms declare.

    python docs/options.py

A test compares the page with the declarations.
"""

from pathlib import Path

from murmurlog.mechanisms import MECHANISMS, declared_options

PAGE = Path(__file__).parent / "reference" / "mechanism-options.md"
HEAD = """# Options of the mechanisms

<!-- Written by docs/options.py from the declarations in src/murmurlog/mechanisms; do not edit. -->

`release` and `plan` take these flags; in Python they are keywords of `murmurlog.release` and have the
same names with underscores. A mechanism that does not declare an option refuses it. A public file must be
fixed without the log; the log itself is refused.

| flag | mechanisms | meaning |
|---|---|---|
"""
MIDDLE = """
What each mechanism makes, where it runs, and how it is asked for:

| mechanism | tables | engines | items a unit by default | asked for by |
|---|---|---|---|---|
"""


def page() -> str:
    """The page as the declarations have it."""
    text = HEAD
    for option, owners in declared_options().values():
        links = ", ".join(f"[{name}](../explanation/mechanisms/{name}.md)" for name in owners)
        public = " A public file." if option.public_file else ""
        text += f"| `{option.flag}` | {links} | {option.help}{public} |\n"
    text += MIDDLE
    for name, mechanism in MECHANISMS.items():
        asked = mechanism.chosen_by or f"--mechanism {name}"
        text += (
            f"| [{name}](../explanation/mechanisms/{name}.md) | {', '.join(mechanism.tables)} | "
            f"{', '.join(mechanism.engines)} | {mechanism.usual_bound} | `{asked}` |\n"
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(page())

"""One user's value in a DataFrame changes how the values of all other users are read.

    python audits/attacks/frame_objects.py [--size 2000]

A column of objects was offered to Arrow as a whole, and only if Arrow refused was each value read by
itself, by other rules. pandas chooses the type of a column by its values, so one missing number made
floats of everybody's integers. A value without a text refused the whole frame. The others here have
members of an enumeration, integers or bytes in the column that `by` names, and one more user has a number,
no value or a list.

Measured before each value was read by itself, with 2,000 other users: beside one user's 7, one missing
number and one fraction the table of 2,000 users was empty; a bytearray beside a 7 refused the frame, and
so did a list.
"""

import enum
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

import murmurlog
from attacks.shared import ATTACKER, Finding, main
from murmurlog.errors import MurmurlogError

Country = enum.Enum("Country", {"DE": "DE"}, type=str)
NOISE = 200  # users; at epsilon 1 the noise is below it but once in 10^20 releases
# What the others have, what the attacker has, and the text that is declared public.
FORMS: dict[str, tuple[Any, Any, str]] = {
    "an enumeration beside a number": (Country.DE, 7, "DE"),
    "integers beside a missing one": (1, None, "1"),
    "integers beside a fraction": (1, 2.5, "1"),
    "bytes beside a number": (bytearray(b"DE"), 7, "DE"),
    "texts beside a list": ("DE", ["DE"], "DE"),
}


def users_published(rows: list[tuple[str, str, Any]], value: str, bundle: Path) -> int | str:
    """The published users of the query by a value; or how the release was refused."""
    frame = pd.DataFrame(rows, columns=["user", "query", "country"])
    try:
        murmurlog.release(
            frame, out=bundle, tables=["query"], epsilon=1.0, delta=1e-6, by=("country", [value])
        )
        table = murmurlog.load(bundle).tables["query"]
    except MurmurlogError as error:
        return f"refused ({error.exit_code}): {' '.join(str(error).split())[:120]}"
    users: list[int] = table["users"].to_pylist()
    return sum(users)


def attack(folder: Path, size: int) -> Iterator[Finding]:
    for number, (name, (others, own, value)) in enumerate(FORMS.items()):
        rows = [(f"u{n}", "weather", others) for n in range(size)]
        before = users_published(rows, value, folder / f"{number} without")
        after = users_published([*rows, (ATTACKER, "other", own)], value, folder / f"{number} with")
        same = isinstance(before, int) and isinstance(after, int) and abs(after - before) < NOISE
        text = f"{name}: published users {before} -> {after}"
        yield Finding(word="HOLDS" if same and before else "BROKEN", text=text)


if __name__ == "__main__":
    sys.exit(main(attack, size=2_000, meaning="how many other users, one row each"))

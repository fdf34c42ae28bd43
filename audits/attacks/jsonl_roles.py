"""One line of a .jsonl settles which columns everybody's rows have.

    python audits/attacks/jsonl_roles.py [--size 2000]

Roles that `--columns` did not name were guessed from the members of the first 100 lines. One line
with a url added a click table to the release, one with a time changed the bound from random to first,
one with a member `time` hid the times that all others have in `created_at`, and, where nothing was
named, one with a member `user` hid the users that all others have in `uid`.

Measured before only named columns were read: tables query -> query and click; bound random -> first; the
times of all 2,000 other rows were lost; all 2,000 other rows were lost, and the three published queries.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.shared import ATTACKER, Finding, Pair, compared, main

NAMED = {"columns": {"user": "user", "query": "query"}}
TIME = "2026-01-31 18:00:00"


def pair(
    folder: Path, name: str, others: list[dict[str, str]], own: Mapping[str, str], **how: Any
) -> Pair:
    """A log of the others, and the same with one line of the attacker at its head."""
    stem = name.replace(" ", "-")
    without, with_rows = folder / f"{stem}.jsonl", folder / f"{stem}-hostile.jsonl"
    lines = "".join(json.dumps(row) + "\n" for row in others)
    without.write_text(lines)
    with_rows.write_text(json.dumps(own) + "\n" + lines)
    return Pair(name=name, without=without, with_rows=with_rows, **how)


def attack(folder: Path, size: int) -> Iterator[Finding]:
    plain = [{"user": f"u{n}", "query": f"common query {n % 3}"} for n in range(size)]
    timed = [row | {"created_at": TIME} for row in plain]
    anonymous = [{"uid": row["user"], "query": row["query"]} for row in plain]
    own = {"user": ATTACKER, "query": "mine"}
    yield compared(pair(folder, "a url", plain, own | {"url": "a.example"}, **NAMED))
    yield compared(pair(folder, "a time", plain, own | {"time": TIME}, **NAMED))
    yield compared(pair(folder, "another time", timed, own | {"time": TIME}, **NAMED))
    yield compared(pair(folder, "another user", anonymous, own | {"uid": "x"}, refused="both"))


if __name__ == "__main__":
    sys.exit(main(attack, size=2_000, meaning="how many other users, one row each"))

"""Why rows of a log are broken, and the flag that may help: said to the owner, by the reasons alone.

No row is looked at again, and none is read differently: the owner gives the flag, or does not.
`murmurlog init` looks at a log more closely.
"""

from collections.abc import Mapping

from murmurlog.logs.cleaning import UNREADABLE_TIME
from murmurlog.logs.source import Source

FIELDS = (
    "records do not have the fields of the header: see that --delimiter is the one that separates them and "
    "that text that holds it is quoted"
)
ENCODING = (
    "the text is written in another encoding: try --encoding cp1252 (Western Europe), or murmurlog init, which "
    "proposes one"
)
CAUSES = {
    **dict.fromkeys(("too few columns", "too many columns"), FIELDS),
    **dict.fromkeys(("not UTF-8", "not decodable"), ENCODING),
    "not JSON": "lines are not JSON objects: give --format json if the file is one array",
}


def likely_causes(source: Source, broken: Mapping[str, int]) -> list[str]:
    """What probably went wrong, most rows first, each with what to do; at most two."""
    causes = []
    for reason, count in sorted(broken.items(), key=lambda item: (-item[1], item[0])):
        if count and reason == UNREADABLE_TIME:
            form = f"in {source.time_format!r}" if source.time_format else "as ISO 8601"
            causes.append(
                f"times do not read {form}: give --time-format, which murmurlog init proposes, see that "
                "--columns time=... names the right column, or give --columns time=none"
            )
        elif count and reason in ("no user", "no query"):
            role = reason.removeprefix("no ")
            causes.append(
                f'the column "{source.columns[role]}" has no value there: see that it holds the '
                f"{role} (--columns {role}=...)"
            )
        elif count and reason in CAUSES:
            causes.append(CAUSES[reason])
    return causes[:2]

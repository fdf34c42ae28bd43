"""The role of each column of a log: as the owner says, or by the names in a header or schema.

Decides by names alone and never sees a row (A8).
"""

from collections.abc import Mapping

from murmurlog.errors import InputError, UsageError

ROLES = ("user", "query", "time", "url", "rank")
REQUIRED = ("user", "query")
NONE = "none"  # --columns time=none: there is no such column
NAMES = {
    "user": ("user", "user_id", "userid", "uid", "anonid", "anon_id", "cookie", "cookie_id",
             "visitor_id", "client_id", "account_id", "device_id"),
    "query": ("query", "q", "query_text", "querytext", "search_query", "search_term", "searchterm",
              "search", "term", "terms", "keywords"),
    "time": ("time", "timestamp", "ts", "query_time", "querytime", "event_time", "datetime",
             "created_at", "date"),
    "url": ("url", "click_url", "clickurl", "clicked_url", "clickedurl", "link", "doc", "docid",
            "doc_id", "document"),
    "rank": ("rank", "item_rank", "itemrank", "click_rank", "position", "pos"),
}  # fmt: skip
_KNOWN = frozenset(name for names in NAMES.values() for name in names)


def roles_of(
    found: tuple[str, ...], given: Mapping[str, str], *, name: str, text: bool
) -> dict[str, str]:
    """The column of each role, as given or by its name; `name` is the source's, for messages.

    With `text` the names come from a line of text, which may be a row if there is no header.
    """
    listed = _listed(found, given, text=text)
    check_given(given)
    for column in given.values():
        if column not in (NONE, *found):
            raise InputError(f'column "{column}" is not in {name}. {listed}')
    columns = {}
    for role in ROLES:
        if role in given:
            columns[role] = given[role]
        elif len(alike := known_as(role, found)) > 1:
            raise InputError(
                f'columns of {name} that look like "{role}" differ only in case or spaces: '
                f"{short(alike)}. Choose one: --columns {role}=..."
            )
        elif alike:
            columns[role] = alike[0]
    for role in REQUIRED:
        if role not in columns:
            tabs = " Its first line holds tabs: rename it to .tsv." if _has_tabs(found) else ""
            raise InputError(
                f'no column of {name} looks like "{role}". {listed} Map it: --columns {role}=...{tabs}'
            )
    return {role: column for role, column in columns.items() if column != NONE}


def check_given(given: Mapping[str, str]) -> None:
    """Raises if --columns names an unknown role, or no column for a required role."""
    for role, column in given.items():
        if role not in ROLES:
            raise UsageError(f"--columns: {role!r} is not a role; roles are {', '.join(ROLES)}")
        if column == NONE and role in REQUIRED:
            raise UsageError(f"--columns {role}=none: a log without a {role} cannot be published")


def known_as(role: str, found: tuple[str, ...]) -> tuple[str, ...]:
    """The columns whose name is known for a role: all that match the first such name."""
    for name in NAMES[role]:
        if alike := tuple(column for column in found if _plain(column) == name):
            return alike
    return ()


def _plain(column: str) -> str:
    return column.lower().replace(" ", "_")


def _has_tabs(found: tuple[str, ...]) -> bool:
    return len(found) == 1 and "\t" in found[0]


def _listed(found: tuple[str, ...], given: Mapping[str, str], *, text: bool) -> str:
    """The columns for a message; of text files only known names, as the first line may be a row."""
    shown = tuple(
        name for name in found if not text or name in given.values() or _plain(name) in _KNOWN
    )
    if shown == found:
        return f"Found: {short(found)}."
    rest = f"{len(found) - len(shown)} unknown names"
    return (
        f"Found: {short((*shown, rest))}. They are not printed, because the first line may be a row: "
        "if it is, put a line with the names of the columns before it."
    )


def short(names: tuple[str, ...]) -> str:
    """Names of columns for a message, shortened to a readable length."""
    cut = [name if len(name) <= 60 else f"{name[:57]}..." for name in names[:30]]
    return ", ".join(cut) + (f" and {len(names) - 30} more" if len(names) > 30 else "")

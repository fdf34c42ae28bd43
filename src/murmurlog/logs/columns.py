"""The role of each column of a log: as the owner says, or by the names in a header or schema.

Decides by names alone and never sees a row (A8). Names in other languages and names that are nearly
known are proposed to the owner and never taken by themselves.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches

from murmurlog.errors import InputError, UsageError, did_you_mean

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
# Proposed only: a name that was ignored so far must not become a column by an update.
FOREIGN = {
    "user": ("nutzer", "benutzer", "nutzer_id", "kunde", "kunden_id", "besucher", "sitzung", "session_id",
             "utilisateur", "client", "visiteur", "usuario", "cliente", "visitante", "utente", "gebruiker",
             "bezoeker", "klant", "member_id", "customer_id", "person", "id_user"),
    "query": ("suchanfrage", "suchbegriff", "suche", "anfrage", "suchwort", "requete", "requête",
              "recherche", "mot_cle", "consulta", "busqueda", "búsqueda", "termino", "ricerca",
              "interrogazione", "zoekopdracht", "zoekterm", "zoekvraag", "search_text", "searchquery",
              "phrase", "search_phrase"),
    "time": ("zeitpunkt", "zeit", "zeitstempel", "datum", "uhrzeit", "heure", "horodatage", "temps",
             "fecha", "hora", "marca_de_tiempo", "data", "ora", "orario", "tijd", "tijdstip",
             "date_time", "searched_at", "when", "event_timestamp"),
    "url": ("klick", "geklickte_url", "treffer", "adresse", "clic", "lien", "enlace", "clique",
            "collegamento", "klik", "click", "clicked", "result_url", "target_url", "page"),
    "rank": ("rang", "platz", "stelle", "posicion", "posición", "posizione", "positie", "result_rank"),
}  # fmt: skip
# What is a value rather than a name: signs and digits alone, urls, e-mail addresses, dates, long ids,
# several words with a number of two digits, and letters with a number of three.
_VALUE = re.compile(
    r"[\d\W_]*|.*://.*|www\..*|\S+@\S+|\d{1,4}[-./]\w{1,9}[-./]\d{1,4}.*|(?=.*\d)[0-9a-fA-F-]{8,}"
    r"|(?=.*\s).*\d\d.*|.*[a-z]\d{3,}.*",
    re.DOTALL,
)
LONGEST_NAME = 40  # characters


def looks_like_name(text: str) -> bool:
    """Whether a field of a first line can be the name of a column, rather than a value of a row."""
    mostly_digits = 2 * sum(c.isdigit() for c in text) >= len(text)
    return not (len(text) > LONGEST_NAME or mostly_digits or _VALUE.fullmatch(text))


def roles_of(
    names: tuple[str, ...], mapping: Mapping[str, str], *, name: str, text: bool
) -> dict[str, str]:
    """The column of each role, as `mapping` says or by its name; `name` is the source's, for messages.

    With `text` the names come from a line of text, which may be a row if there is no header.
    """
    summary = _list_names(names, mapping, text=text)
    check_roles(mapping)
    for role, column in mapping.items():
        if column not in (NONE, *names):
            near = get_close_matches(column, _printable_names(names, mapping, text=text), n=1)
            hint = f" Did you mean --columns {role}={near[0]}?" if near else ""
            raise InputError(f'column "{column}" is not in {name}. {summary}{hint}')
    columns = {}
    for role in ROLES:
        if role in mapping:
            columns[role] = mapping[role]
        elif len(alike := match_role(role, names)) > 1:
            raise InputError(
                f'columns of {name} that look like "{role}" differ only in case or spaces: '
                f"{short(alike)}. Choose one: --columns {role}=..."
            )
        elif alike:
            columns[role] = alike[0]
    for role in REQUIRED:
        if role not in columns:
            raise InputError(
                f'no column of {name} looks like "{role}". {summary} '
                f"{_advise_delimiter(names, text=text) or _proposal(names, mapping, columns, text=text)}"
            )
    return {role: column for role, column in columns.items() if column != NONE}


def check_roles(mapping: Mapping[str, str]) -> None:
    """Raises if --columns names an unknown role, or no column for a required role."""
    for role, column in mapping.items():
        if role not in ROLES:
            raise UsageError(
                f"--columns: {role!r:.60} is not a role; roles are {', '.join(ROLES)}."
                f"{did_you_mean(role, ROLES)}"
            )
        if column == NONE and role in REQUIRED:
            raise UsageError(f"--columns {role}=none: a log without a {role} cannot be published")
        twins = [other for other, name in mapping.items() if name == column != NONE]
        if len(twins) > 1:
            raise UsageError(
                f"--columns names the column {column!r:.60} for {' and for '.join(twins)}: a column has "
                "one role"
            )


def match_role(role: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns whose name is usual for a role: all that match the first such name."""
    for usual_name in NAMES[role]:
        if alike := tuple(column for column in names if _plain(column) == usual_name):
            return alike
    return ()


def _plain(column: str) -> str:
    return column.lower().replace(" ", "_")


def _advise_delimiter(names: tuple[str, ...], *, text: bool) -> str:
    """What to do with a header that is cut at another delimiter."""
    if not text or len(names) != 1:
        return ""
    if "\t" in names[0]:
        return "Its first line holds tabs: rename it to .tsv, or give --delimiter tab."
    for character, name in ((";", "semicolon"), ("|", "pipe"), (",", "comma")):
        if character in names[0]:
            return f"One column was found, with {character!r} in its name: give --delimiter {name}."
    return ""


def _proposal(
    names: tuple[str, ...], mapping: Mapping[str, str], columns: Mapping[str, str], *, text: bool
) -> str:
    """--columns for this log, as far as names suggest it."""
    free = [
        name for name in _printable_names(names, mapping, text=text) if name not in columns.values()
    ]
    proposed = dict(mapping)
    for role in ROLES:
        if role in columns:
            continue
        near = _nearest(role, free)
        if near is not None:
            proposed[role] = near
            free.remove(near)
        elif role in REQUIRED:
            proposed[role] = "..."
    flag = ",".join(f"{role}={proposed[role]}" for role in ROLES if role in proposed)
    has_guess = any(column != "..." and role not in mapping for role, column in proposed.items())
    return f"Did you mean --columns {flag} ?" if has_guess else f"Map it: --columns {flag}"


def _nearest(role: str, free: list[str]) -> str | None:
    """The column whose name means the role in another language, or nearly a known name."""
    by_plain = {_plain(name): name for name in reversed(free)}
    for name in FOREIGN[role]:
        if name in by_plain:
            return by_plain[name]
    for name, column in by_plain.items():
        if get_close_matches(name, (*NAMES[role], *FOREIGN[role]), n=1, cutoff=0.8):
            return column
    return None


def _printable_names(
    names: tuple[str, ...], mapping: Mapping[str, str], *, text: bool
) -> tuple[str, ...]:
    """The names that a message may show; for text files those that look like values are left out.

    If half of them do, the first line is probably a user's row, and only names that the owner gave
    are printed.
    """
    if not text:
        return names
    likely = [name for name in names if looks_like_name(name)]
    header = 2 * len(likely) > len(names)
    printable = {*mapping.values(), *(likely if header else ())}
    return tuple(name for name in names if name in printable)


def _list_names(names: tuple[str, ...], mapping: Mapping[str, str], *, text: bool) -> str:
    """The columns for a message."""
    printable = _printable_names(names, mapping, text=text)
    if printable == names:
        return f"Found: {short(names)}."
    if not printable:
        return (
            f"Its first line looks like a row, so its {len(names)} fields are not printed: if it is one, "
            "put a line with the names of the columns before it."
        )
    return f"Found: {short(printable)}, and {len(names) - len(printable)} that look like data, not names."


def short(names: tuple[str, ...]) -> str:
    """Names of columns for a message, shortened to a readable length."""
    cut = [name if len(name) <= 60 else f"{name[:57]}..." for name in names[:30]]
    return ", ".join(cut) + (f" and {len(names) - 30} more" if len(names) > 30 else "")

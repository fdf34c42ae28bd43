"""What columns are for: by their names in several languages, and by what is in them.

A proposal for the owner. A release decides by names alone (`logs/columns`), or as the owner says.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from murmurlog.logs.columns import FOREIGN, NAMES, REQUIRED, ROLES

# Beside the names that `logs/columns` knows: without accents, spaces and signs.
WORDS: Mapping[str, tuple[str, ...]] = {
    "user": (
        "username", "nutzerkennung", "benutzerid", "benutzername", "kundennummer", "kundennr",
        "besucherid", "kennung", "idutilisateur", "idclient", "idusuario", "idcliente", "idutente",
        "gebruikerid", "gebruikersid", "klantid", "customer", "visitor", "session", "ip",
    ),
    "query": (
        "suchbegriffe", "suchtext", "suchwoerter", "motscles", "termederecherche", "terminodebusqueda",
        "palabrasclave", "terminediricerca", "parolechiave", "zoekwoord", "zoektekst", "keyword",
    ),
    "time": (
        "datumuhrzeit", "datumzeit", "dateheure", "fechahora", "fechayhora", "dataora", "tijdstempel",
        "datumtijd",
    ),
    "url": (
        "klickurl", "angeklickteurl", "ergebnis", "ergebnisurl", "ziel", "zielurl", "webadresse",
        "urlcliquee", "resultat", "adresseweb", "resultado", "urlpulsada", "direccion", "risultato",
        "urlcliccato", "indirizzo", "resultaat", "aangekliktelink", "klikurl", "result", "dokument",
        "target", "documentid", "sku", "product", "productid", "itemid", "articleid",
    ),
    "rank": (
        "trefferposition", "klickposition", "klickrang", "rango",
    ),
}  # fmt: skip
# Names of the role url whose values may be ids of documents rather than addresses.
DOCUMENTS = frozenset(
    ("doc", "docid", "document", "documentid", "dokument", "sku", "product", "productid", "itemid",
     "articleid")
)  # fmt: skip
SESSIONS = ("session", "sitzung")  # in names of columns
EXACT, PARTIAL = 3.0, 1.5
SEVERAL = 20  # rows, for a column of one value to be no accident
MOST_URLS = 0.1  # share of addresses in a column of ids
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://\S+|(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:/\S*)?)", re.IGNORECASE)  # fmt: skip
_MISSING = ("-", "NULL", "null", "\\N", "(null)", "N/A", "n/a", "None", "nan", "NaN")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a sample of a column's values is like; shares are of the values that are not empty."""

    filled: float  # share of the rows with a value
    distinct: float  # share of the values that occur for the first time
    times: float
    urls: float
    numbers: float
    spaced: float  # values of several words
    letters: float  # values with a letter
    missing: tuple[str, ...]  # values that may stand for none
    nested: float = 0.0  # objects and lists
    constant: bool = False  # one value in several rows


def facts_of(values: Sequence[str], *, times: float) -> Facts:
    """The facts of a sample of a column."""
    filled = [value for value in (value.strip() for value in values) if value]
    missing = [text for text in _MISSING if text in set(filled)]
    filled = [value for value in filled if value not in missing]
    n = len(filled) or 1
    return Facts(
        filled=len(filled) / (len(values) or 1),
        distinct=len(set(filled)) / n,
        times=times,
        urls=sum(bool(_URL.fullmatch(value)) for value in filled) / n,
        numbers=sum(value.replace(".", "", 1).isdecimal() for value in filled) / n,
        spaced=sum(" " in value for value in filled) / n,
        letters=sum(any(c.isalpha() for c in value) for value in filled) / n,
        nested=sum(value[0] + value[-1] in ("{}", "[]") for value in filled) / n,
        constant=len(filled) >= SEVERAL and len(set(filled)) == 1,
        missing=tuple(missing),
    )


def propose(columns: Mapping[str, Facts | None]) -> dict[str, str]:
    """role -> column, the best fit first; a required role may be missing.

    Where there are no facts, names decide. A column of one value is a user or a query only if no other is.
    """
    fits = [
        (not (role in REQUIRED and facts and facts.constant), fit, -place, role, name)
        for place, (name, facts) in enumerate(columns.items())
        for role in ROLES
        if (fit := fit_name(role, name) + _content(role, facts)) > _least(role)
    ]
    roles: dict[str, str] = {}
    for *_, role, name in sorted(fits, reverse=True):
        if role not in roles and name not in roles.values():
            roles[role] = name
    return {role: roles[role] for role in ROLES if role in roles}


def _least(role: str) -> float:
    """What a column must reach to be proposed; a rank or a url that is none does harm."""
    return 0.9 if role in REQUIRED else 1.4


def fit_name(role: str, name: str) -> float:
    """How well a name fits a role: a known name, or one with a known name in it."""
    plain = plain_name(name)
    usual_names = (*map(plain_name, (*NAMES[role], *FOREIGN[role])), *WORDS[role])
    if plain in usual_names:
        # Which of two columns with known names: the one with the more usual name.
        return EXACT - 0.01 * usual_names.index(plain)
    parts = {plain_name(part) for part in re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", name)}
    inside = any(word in plain for word in usual_names if len(word) > 4)
    return PARTIAL if parts & set(usual_names) or inside else 0.0


def plain_name(name: str) -> str:
    """A name without case, accents, spaces and signs; ä is ae, as in names without umlauts."""
    text = name.casefold()
    for letter, instead in (("ä", "ae"), ("ö", "oe"), ("ü", "ue")):
        text = text.replace(letter, instead)
    bare = unicodedata.normalize("NFKD", text)
    return "".join(c for c in bare if c.isalnum() and not unicodedata.combining(c))


def has_ids(name: str, facts: Facts) -> bool:
    """Whether a column of clicks holds ids of documents: by its name, unless many values are urls."""
    return plain_name(name) in DOCUMENTS and facts.urls < MOST_URLS


def is_known(name: str) -> bool:
    """Whether a name is known for a role."""
    return any(fit_name(role, name) >= EXACT - 1 for role in ROLES)


def _content(role: str, facts: Facts | None) -> float:
    """How well values fit a role, from -3 to 2."""
    if facts is None:
        return 0.0
    if facts.filled == 0:
        return -3.0 if role in REQUIRED else -1.0
    if role == "time":
        return 2.0 * facts.times if facts.times >= 0.5 else -3.0
    if role == "url":
        return 2.0 * facts.urls if facts.urls >= 0.5 else -1.0
    if role == "rank":
        return 0.4 * facts.numbers if facts.numbers >= 0.5 else -3.0
    if facts.times > 0.5 and facts.numbers < 0.5 or facts.urls > 0.5 or facts.nested > 0.5:
        return -3.0
    if role == "query":
        return facts.spaced + 0.5 * facts.letters - 0.5 * facts.numbers
    repeated = 1.0 if facts.distinct < 0.95 else 0.3
    return repeated - 2.0 * facts.spaced - (0.5 if facts.distinct < 0.002 else 0.0)

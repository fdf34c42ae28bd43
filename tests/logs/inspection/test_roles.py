"""Columns get roles by names in several languages, unless their content contradicts."""

import pytest

from murmurlog.logs.inspection.roles import Facts, fit_name, propose

USERS = Facts(filled=1, distinct=0.1, times=0, urls=0, numbers=1, spaced=0, letters=0, missing=())
QUERIES = Facts(filled=1, distinct=0.5, times=0, urls=0, numbers=0, spaced=0.6, letters=1, missing=())  # fmt: skip
TIMES = Facts(filled=1, distinct=0.9, times=1, urls=0, numbers=0, spaced=1, letters=0, missing=())
URLS = Facts(filled=0.5, distinct=0.3, times=0, urls=1, numbers=0, spaced=0, letters=1, missing=())
RANKS = Facts(filled=0.5, distinct=0.01, times=0, urls=0, numbers=1, spaced=0, letters=0, missing=())  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        ("Benutzer-ID", "Suchbegriff", "Datum/Uhrzeit", "Ergebnis-URL", "Trefferposition"),
        ("ID utilisateur", "Requête", "Date heure", "URL cliquée", "Position"),
        ("id_usuario", "Término de búsqueda", "Fecha y hora", "Enlace", "Posición"),
        ("Utente", "Termine di ricerca", "Data", "Collegamento", "Posizione"),
        ("GebruikerID", "Zoekterm", "Tijdstip", "Aangeklikte link", "Positie"),
        ("AnonID", "Query", "QueryTime", "ClickURL", "ItemRank"),
    ],
)
def test_names_of_six_languages_are_known(names):
    facts = dict(zip(names, (USERS, QUERIES, TIMES, URLS, RANKS), strict=True))
    shuffled = dict(sorted(facts.items()))
    assert propose(shuffled) == dict(
        zip(("user", "query", "time", "url", "rank"), names, strict=True)
    )


def test_of_two_columns_with_known_names_the_more_usual_one_is_proposed():
    found = propose({"session": USERS, "user_id": USERS, "query": QUERIES})
    assert found == {"user": "user_id", "query": "query"}


def test_numbers_without_a_name_are_no_ranks():
    assert "rank" not in propose({"user": USERS, "query": QUERIES, "amount": RANKS})


def test_a_word_inside_a_name_counts_less():
    assert fit_name("user", "Nutzer") > fit_name("user", "Nutzer (intern)") > 0
    assert fit_name("query", "Nutzer") == 0

"""What a ledger says: complete JSON, plain words, and a page that can be signed."""

import re

import pytest

from murmurlog.errors import UsageError
from murmurlog.privacy import Guarantee, limits_of
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_statement import as_html, as_json, as_text, write_statement


@pytest.fixture
def book(tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.cap("web", epsilon=2, delta=1e-5, pure=1.6, by_whom="Jane Doe")
    for name, epsilon, what in (
        ("one", 0.5, "query: rounds(d=1); click: threshold(d=2)"),
        ("two", 1, "x"),
    ):
        cost = Guarantee(epsilon=epsilon, delta=1e-6)
        book.reserve(
            "web", cost, release_id=name, what=what, title="<b>Spring</b>" * (name == "one")
        )
    book.commit("one")
    book.cap("web", epsilon=3, delta=1e-5, pure=2, reason="<script>alert(1)</script>" + 300 * "x")
    book.reserve(
        "days",
        Guarantee(epsilon=1, delta=0, unit="user-day"),
        release_id="three",
        what="x",
        new_source=True,
    )
    return book


def test_the_json_is_complete(book):
    shown = as_json(book.contents())
    days, web = shown["sources"]
    limits = limits_of(3, 1e-5, pure=2, distance=limits_of(2, 1e-5).distance)
    assert (web["name"], web["rule"], web["rectangle"]) == ("web", "filter", limits._asdict())
    assert web["cap"] == {"epsilon": 3.0, "delta": 1e-5}
    assert web["spent"] == {"mu2": 0, "keys": pytest.approx(2e-6), "distance": 0, "pure": 1.5}
    assert web["left"]["pure"] == 0.5
    assert web["not_published"] == {"releases": 1}
    assert [entry["release_id"] for entry in web["entries"]] == ["one", "two"]
    assert [(c["epsilon_before"], c["epsilon"]) for c in web["cap_history"]] == [(None, 2), (2, 3)]
    assert (days["cap"]["epsilon"], days["spent"]["pure"]) == (3, 1)
    assert (shown["cap_required"], shown["cap_required_history"]) == (False, [])
    assert len(shown["entries"]) == 3


def test_the_text_says_cap_amounts_releases_and_changes(book):
    assert "2 sources. A new source has a cap of epsilon 3, delta 1e-05" in as_text(
        book.contents(), "l"
    )
    book.require_cap()
    text = as_text(book.contents(), "budget.db")
    assert text.startswith("budget.db: 2 sources. Every source needs a cap of its own")
    days, web = text.split("\n\n")[1:]
    assert "the default cap" in days
    assert "  cap       epsilon 3, delta 1e-05\n" in web
    assert "and 75 % of the epsilon for pure releases, by 2 releases\n" in web
    assert "and 25 % of the epsilon for pure releases; 0 more releases" in web
    assert "1 release booked and not published" in web
    assert re.search(r"published      epsilon 0.5, .*  one  .*: query \(rounds\), click \(thr", web)
    assert re.search(r"not published  epsilon 1, .*  two  x", web)
    assert "delta 1e-05 (keys 0.4, pure 2) instead of epsilon 2, delta 1e-05, by" in web
    assert "by Jane Doe (account " in web


def test_the_page_holds_everything_escaped_and_needs_nothing(book):
    page = as_html(book.contents(), "web", ledger="budget.db", day="2026-11-16")
    assert page == as_html(book.contents(), "web", ledger="budget.db", day="2026-11-16")
    for text in ("epsilon 3, delta 1e-05", ">75 %<", ">50 %<", "&lt;b&gt;Spring", "&lt;script&gt;",
                 300 * "x", "Jane Doe", "not published", "e to the epsilon of the cap", "1 in 100,000", "Signature",
                 "size: A4", book.contents().digest):  # fmt: skip
        assert text in page, text
    assert "<script" not in page
    assert "<b>Spring" not in page
    assert not re.search(r"https?:|url\(|src=", page)
    assert ">one<" in page
    assert ">two<" in page
    assert "three" not in page


def test_what_a_cap_means_fits_its_unit(book):
    page = as_html(book.contents(), "days", ledger="l", day="2026-11-16")
    assert "whether one user-day is in the log by a factor of at most 20.1" in page
    assert "For a user with n user-days epsilon is n times as large" in page
    book.cap("new", epsilon=1, delta=1e-6)
    page = as_html(book.contents(), "new", ledger="l", day="2026-11-16")
    assert "Nothing was released from this source" in page


def test_a_page_is_written_beside_nothing_else(book, tmp_path):
    out = tmp_path / "s.html"
    assert write_statement(book, " web ", out=out) == "web"
    assert out.read_text().startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == {"budget.db", "s.html"}
    with pytest.raises(UsageError, match="exists"):
        write_statement(book, "web", out=out)
    with pytest.raises(UsageError, match=r"must be an \.html file"):
        write_statement(book, "web", out=tmp_path / "s.txt")
    with pytest.raises(UsageError, match=r"no source 'wbe' in budget.db; did you mean 'web'\?"):
        write_statement(book, "wbe", out=tmp_path / "t.html")

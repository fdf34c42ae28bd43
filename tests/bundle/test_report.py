"""report.html of a bundle: made from released data alone, checked by verify, and never code."""

import hashlib
import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from certificates import THRESHOLD, make_certificate, make_table
from pages import read_page as words_of

from murmurlog.auditing.verify import verify
from murmurlog.bundle import cards
from murmurlog.bundle import label as wording
from murmurlog.bundle.cards import NO_GUARANTEE, NOT_PRIVATE
from murmurlog.bundle.files import SUMS, sums
from murmurlog.bundle.read import load
from murmurlog.bundle.report import make_report
from murmurlog.bundle.schema import AT_LEAST, IN_LOG, KEYS, By, schema
from murmurlog.bundle.write import publish
from murmurlog.cli.demo_log import Demo
from murmurlog.errors import BundleError
from murmurlog.mechanisms import parse
from murmurlog.privacy import ASSUMPTIONS, Guarantee
from murmurlog.privacy.rounding import round_up_text

SHA = {"privacy.json": "ab", "data/query.parquet": "cd"}
HOSTILE = "<script>alert(1)</script>"


QUERIES = make_table("query", ["weather", 900, 3.0], ["maps", 80, 3.0], ["rare thing", 41, 30.0])
CLICKS = make_table("click", ["weather", "example.org", 300, 3.0])


@pytest.fixture
def bundle(tmp_path):
    tables = {"query": QUERIES, "click": CLICKS}
    publish(tmp_path / "bundle", tables=tables, certificate=make_certificate(tables))
    report = verify(tmp_path / "bundle")
    assert report.ok, [c.message for c in report.checks if not c.ok]
    return tmp_path / "bundle"


def read(page):
    """The words of the page, which is sound and small."""
    assert len(page.encode()) < 300_000
    return words_of(page)


# --- what is in it --------------------------------------------------------------------------------


def test_the_page_is_a_function_of_certificate_and_tables(bundle):
    loaded = load(bundle)
    stored = (bundle / "report.html").read_text(encoding="utf-8")
    assert make_report(loaded.certificate, loaded.tables, sums(bundle)) == stored
    assert '<meta name="murmurlog-report" content="released">' in stored


def test_it_says_who_is_protected_first_and_epsilon_as_odds(bundle):
    text = read((bundle / "report.html").read_text(encoding="utf-8"))
    g = load(bundle).guarantee
    assert g.epsilon == 5.0
    assert text.index("one user") < text.index("× 149 at most (epsilon 5)")
    assert f"delta = {round_up_text(g.delta)}" in text
    assert "An id of the log, not a person" in text
    assert "At most 5 different items of one user." in text
    assert "An item needs about 40 users." in text
    ninety_five, ninety_nine = (parse(THRESHOLD).passes(p) for p in (0.95, 0.99))
    assert f"one of {ninety_five} with 95 %, one of {ninety_nine} with 99 %" in text
    assert "Whole numbers, from the operating system's entropy" in text
    assert "2026-01-31" in text


def test_rows_come_with_their_uncertainty_and_unreliable_ones_are_grey(bundle):
    page = (bundle / "report.html").read_text(encoding="utf-8")
    text = read(page)
    assert "query users 95 % interval" in text
    assert "900 894 to 906" in text  # a standard error of 3, geometric noise
    assert "41 0 to 106 *" in text
    assert "±" not in text
    (grey,) = re.findall(r'<tr class="dim">.*', page)
    assert "rare thing" in grey
    chart = page[page.index("query: 3 queries") :]
    chart = chart[: chart.index("</svg>")]
    assert chart.count('class="fill0"') == 2
    assert chart.count('class="dim"') == 1


@pytest.mark.parametrize("meaning", [IN_LOG, AT_LEAST])
def test_it_says_what_the_counts_are_about(meaning):
    ends = {"users_low": [890, 75, 0], "users_high": [911, 85, 100] if meaning == IN_LOG else None}
    table = QUERIES
    for place, (name, values) in enumerate(ends.items(), 2):
        table = table.add_column(place, name, pa.array(values or [None] * 3, pa.int64()))
    certificate = make_certificate({"query": table})
    more = {"d2": 16, "common_error": 0.0, "histogram": [3]} if meaning == IN_LOG else {}
    claim = replace(certificate.tables["query"], counting={"meaning": meaning, **more})
    certificate = replace(certificate, tables={"query": claim})
    text = read(make_report(certificate, {"query": table}))
    card = cards.readme(certificate, SHA)
    if meaning == IN_LOG:
        assert "query users in the log 95 % interval weather 900 890 to 911" in text
        assert "16 published ones in full, or more for less each" in text
        assert "Counts are estimates of how many users in the log hold the item." in text
        assert "- `users`: estimated number of users in the log" in card
        assert "estimated from weighted counts" in cards.deployment(certificate)
    else:
        assert "query users counted in the log, 95 % sure weather 900 at least 890" in text
        assert "the log has at least as many, up to the noise" in text
        assert "- `users_high`: empty" in card
    assert "bounding" not in text
    assert "bounding" not in card


def test_the_budget_falls_from_tables_to_what_is_stated(bundle):
    loaded = load(bundle)
    text = read((bundle / "report.html").read_text(encoding="utf-8"))
    assert "query 2.5 click 2.5 sum 5 stated 5" in text
    certificate = replace(loaded.certificate, guarantee=replace(loaded.guarantee, epsilon=4.0))
    text = read(make_report(certificate, loaded.tables))
    assert "sum 5 in one account 4" in text
    assert "the sum is a coarser bound" in text


def test_the_demonstration_ends_with_it(bundle):
    outcome = SimpleNamespace(
        out=bundle, guarantee=load(bundle).guarantee, as_json=dict, booked=False
    )
    demo = Demo(folder=bundle.parent, outcome=outcome, report=verify(bundle), log_rows=5)
    assert demo.lines()[-1] == f"Look at it in a browser: {bundle / 'report.html'}"
    assert demo.as_json()["report"] == str(bundle / "report.html")


def test_only_the_first_rows_are_shown():
    many = make_table("query", *(["word " * 100 + str(n), 9000 - n, 3.0] for n in range(1000)))
    tables = {"query": many, "keyword": make_table("keyword", ["a", 50, 2.0])}
    page = make_report(make_certificate(tables), tables)
    text = read(page)
    assert "query: the first 20 of 1,000" in text
    assert page.count("<tr>") + page.count('<tr class="dim">') < 40
    assert "…" in text


def kinds():
    """A table of every kind, with a mechanism that makes it."""
    session = "sessions(l_s=1, l_q=2, subsequences=all, noise=geometric, scale=1.0, T=20)"
    log = pa.Table.from_pylist(
        [{"user": "invented-1", "query": "a", "url": "b.org", "count": 3},
         {"user": "invented-2", "query": "a", "url": "b.org", "count": 4}], schema("log")
    )  # fmt: skip
    return {
        "keyword": (THRESHOLD, make_table("keyword", ["rain", 60, 2.0])),
        "pair": (THRESHOLD, make_table("pair", ["rain", "snow", 60, 2.0])),
        "session": (session, make_table("session", [["a", "b"], 50, 2.0])),
        "itemset": (THRESHOLD, make_table("itemset", [["a", "b"], 50, 2.0])),
        "log": ("synthetic(d=1, scale=1.0, T=20, b_sizes=10.0, b_count=9.0)", log),
        "left_out": (
            "left-out(d=3, sigma=5.0)",
            make_table("left_out", ["searches left out", "1", "yes", -3, 5.0], count="rows"),
        ),
    }


@pytest.mark.parametrize("kind", kinds())
def test_every_table_can_be_shown(kind):
    mechanism, table = kinds()[kind]
    tables = {"query": QUERIES, kind: table}
    text = read(make_report(make_certificate(tables, {kind: mechanism}), tables))
    expected = {
        "keyword": "rain 60 56 to 64", "pair": "rain snow 60 56 to 64",
        "session": "a → b 50 46 to 54", "itemset": "a → b 50 46 to 54", "log": "a b.org 7",
        "left_out": "searches left out 1 yes -3 0 to 7 *",
    }  # fmt: skip
    assert expected[kind] in text
    assert set(kinds()) | {"query", "click"} == set(KEYS)


def test_tables_without_counts_without_rows_and_split_ones():
    bare = schema("query", count=None).empty_table()
    keys = pa.table({"query": ["maps", "news"]})
    text = read(make_report(make_certificate({"query": keys}), {"query": keys}))
    assert "2 queries" in text
    assert "maps news" in text
    text = read(make_report(make_certificate({"query": bare}), {"query": bare}))
    assert "nothing passed the threshold" in text
    by = By(column="country", values=("DE", "FR"))
    split = make_table("query", ["maps", "DE", 90, 2.0], by=by)
    text = read(make_report(make_certificate({"query": split}, by=by), {"query": split}))
    assert "maps DE 90 86 to 94" in text


def test_rounds_say_what_their_last_round_asks_for():
    mechanism = parse(
        "rounds(d=100, s=3.93921_3.19691_2.5945_2.1056, own=120_182_277_420, past=108_164_249, "
        "T=3049142488_4832332015_6808184803_8518143545, C=3.0, reach=1.3, focus=0.3)"
    )
    keys = pa.table({"query": ["maps"]})
    certificate = make_certificate({"query": keys}, {"query": str(mechanism)}, epsilon=8)
    few, hundred = math.ceil(mechanism.needed_weight()), math.ceil(10 * mechanism.needed_weight())
    text = read(make_report(certificate, {"query": keys}))
    assert f"An item needs about {few} to {hundred} users" in text


# --- what it must not promise ---------------------------------------------------------------------


def test_what_is_not_private_says_so_on_top():
    tables = {"query": QUERIES}
    text = read(make_report(make_certificate(tables, private=False), tables))
    assert text.index(NOT_PRIVATE) < text.index("Privacy label of a demonstration: NOT in force")
    nothing = make_certificate(tables, {"query": "k-query:20"})
    page = make_report(nothing, tables)
    text = read(page)
    assert NO_GUARANTEE in text
    assert "without a privacy guarantee" in text
    assert "epsilon" not in text.replace("table mechanism epsilon delta", "")
    assert "×" not in text
    assert "Protected unit nobody No guarantee." in text
    assert "plus noise" not in text


def test_conditions_and_earlier_releases_are_on_the_label():
    tables = {"query": QUERIES}
    certificate = make_certificate(
        tables,
        unprotected=("per-user was tuned on the log",),
        declared_users=200_000,
        booked={
            "source": "shop",
            "releases_before": 2,
            "epsilon_before": 1.5,
            "delta_before": 1e-7,
        },
        about={"publisher": "A Library", "license": "CC0-1.0", "description": "Of one year."},
    )
    text = read(make_report(certificate, tables))
    for words in (
        "Chosen by looking at the log: per-user was tuned on the log",
        "times 200,000 declared users",
        "Releases of it before this one: 2, with epsilon 1.5 and delta 1e-07",
        "2026-01-31 by A Library. License: CC0-1.0.",
        "Of one year.",
    ):
        assert words in text


def test_probabilistic_and_replace_guarantees_are_told_apart():
    tables = {"query": QUERIES}
    text = read(
        make_report(
            make_certificate(tables, {"query": "zealous(m=1, lam=1.0, tau=3, T=40, users=10)"}),
            tables,
        )
    )
    assert "though for nothing made from them" in text
    g = replace(make_certificate(tables).guarantee, neighbours="replace")
    assert "which of two a user is" in read(
        make_report(make_certificate(tables, guarantee=g), tables)
    )
    g = replace(g, neighbours="add-remove", unit="user-day")
    text = read(make_report(make_certificate(tables, guarantee=g), tables))
    assert "For a user with n user-days epsilon is n times as large" in text


def test_the_factor_is_claimed_of_odds_on_a_unit_and_not_of_every_conclusion():
    # Randomised response turns one conclusion from odds of 1/3 to odds of 3: e to twice epsilon.
    tables = {"query": QUERIES}
    certificate = make_certificate(tables)
    for text in (read(make_report(certificate, tables)), cards.statement(certificate)):
        assert "odds on whether" in text
        assert "odds of it" not in text


def test_the_card_rounds_losses_up():
    g = Guarantee(epsilon=1.0000004, delta=1.0004e-6)
    statement = cards.statement(make_certificate({"query": QUERIES}, guarantee=g))
    assert "at most 2.72 (epsilon 1.00001)" in statement  # e is 2.71828...
    assert "at most 1.01e-06 (delta)" in statement


def test_rows_are_not_called_users():
    tables = {"query": make_table("query", ["one person's", 900, 3.0], count="rows")}
    mechanisms = {"query": "korolova(d=10, b=4.0, T=39, b_q=4.0, count=rows)"}
    text = read(make_report(make_certificate(tables, mechanisms, epsilon=5.0), tables))
    assert "At most 10 rows of one user" in text
    assert "needs about 39 rows, of however few users" in text
    assert "Counts are of rows after each user was bounded to a few" in text
    assert "different items of one user" not in text
    assert "What few users have in common does not pass" not in text


def test_keys_without_counts_have_no_remark_on_counts():
    tables = {"query": QUERIES.select(["query"])}
    assert "Counts are of" not in read(make_report(make_certificate(tables), tables))


def test_every_assumption_has_plain_words():
    assert set(wording.PLAIN) == set(ASSUMPTIONS)


# --- what others may have put into it -------------------------------------------------------------


def test_hostile_texts_stay_texts():
    tables = {"query": make_table("query", [HOSTILE, 900, 3.0], ['" onload="x', 800, 3.0])}
    about = dict.fromkeys(("title", "publisher", "license", "description"), HOSTILE)
    page = make_report(make_certificate(tables, about=about, unprotected=(HOSTILE,)), tables)
    text = read(page)
    assert text.count("alert(1)") >= 6
    assert HOSTILE not in page


def reseal(root):
    lines = [f"{digest}  {name}\n" for name, digest in sums(root).items()]
    (root / SUMS).write_text("".join(lines))


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.replace(b"epsilon 5", b"epsilon 1"),
        lambda b: b + b"<!-- raw counts -->",
        lambda b: b.replace(b"\n", b"\r\n", 1),
        lambda b: b"",
    ],
)
def test_a_changed_report_fails_verify(bundle, change):
    path = bundle / "report.html"
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert hashlib.sha256(path.read_bytes()) != hashlib.sha256(before)
    assert [c.name for c in verify(bundle).checks if not c.ok] == ["files"]
    reseal(bundle)
    failed = {c.name: c.message for c in verify(bundle).checks if not c.ok}
    assert failed == {"cards": "report.html is not what the certificate gives"}


def test_a_bundle_without_its_report_fails_verify(bundle):
    (bundle / "report.html").unlink()
    failed = {c.name: c.message for c in verify(bundle).checks if not c.ok}
    assert failed == {"files": "missing: report.html"}
    assert verify(bundle).exit_code == 6


@pytest.mark.parametrize(
    ("forged", "key"),
    [
        ({"parameters": {"per_user": {"a": []}}}, "parameters.per_user"),
        ({"parameters": {"thresholds": [1], "own": 3}}, "parameters.own"),
        ({"parameters": {"thresholds": [1], "own": [0], "grid": 1}}, "parameters.own"),
        ({"passes": {"0.5": "many", "0.95": 1, "0.99": 1}}, "passes.0.5"),
        ({"rows": 10**400}, "rows"),
    ],
)
def test_a_forged_certificate_makes_no_crash(bundle, forged, key):
    stated = json.loads((bundle / "privacy.json").read_text())
    tables = {**stated["tables"], "query": {**stated["tables"]["query"], **forged}}
    (bundle / "privacy.json").write_text(json.dumps({**stated, "tables": tables}))
    reseal(bundle)
    with pytest.raises(BundleError, match=f"tables.query.{key}.* must"):
        verify(bundle)

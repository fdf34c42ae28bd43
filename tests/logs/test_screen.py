"""The screen: a labelled list with precision and recall, own patterns, a list of denied queries.

Every string is invented or from a range that is reserved for examples: example domains, numbers for
fiction, test cards, people born before 1900.
"""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_readers import rows_of_log

from murmurlog.bundle.keys import normalise
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.screen import load, load_deny, matcher
from murmurlog.logs.source import find
from murmurlog.publishing.planning.exact_profile import profile

FOUND = {
    "email": [
        "jane.doe@example.com", "mail jane_doe@example.org please", "J.DOE+news@Mail.Example.NET",
        "o'hara@example.com", "who is bob@example.co.uk", "info@bücher.example",
        "mailto:ann@example.org", "ann%team@example.com", "ann@example.com, bob@example.com",
        "ann at example dot com",
    ],
    "phone": [
        "202-555-0143", "(202) 555-0143", "2025550143", "1-202-555-0143", "+1 202 555 0143",
        "call 202.555.0143 who is it", "+44 20 7946 0958", "020 7946 0958", "07700 900123",
        "07700900123", "01632 960983", "030 23125 123", "0171/3920012", "+49 30 23125-123",
        "01 99 00 12 34", "0033 1 99 00 12 34", "(02) 5550 1234", "0491 570 156", "13000000000",
        "reverse lookup 555-0143",
    ],
    "card": [
        "4111 1111 1111 1111", "4111111111111111", "5555-5555-5555-4444", "5105105105105100",
        "378282246310005", "3782 822463 10005", "6011111111111117", "visa 4012888888881881 exp 12/30",
        "3530111333300000", "30569309025904", "2223 0031 2200 3222", "4222222222222",
    ],
    "iban": [
        "GB29 NWBK 6016 1331 9268 19", "gb29nwbk60161331926819", "DE89 3704 0044 0532 0130 00",
        "iban de89370400440532013000 which bank", "FR14 2004 1010 0505 0001 3M02 606",
        "NL91ABNA0417164300", "ES91 2100 0418 4502 0005 1332", "CH93 0076 2011 6238 5295 7",
        "transfer to at61 1904 3002 3457 3201 today",
    ],
    "us-ssn": [
        "987-65-4320", "987 65 4321", "ssn 987654322", "078-05-1120", "219-09-9999 owner",
        "social security number 219099999", "whose ssn is 987-65-4329", "itin 987-65-4325",
        "social security #078051120",
    ],
    "cn-id": [
        "110105184912310020", "110105184912310012", "身份证 110105184912310047", "440301189001010013",
        "310101188808080026 查询", "110105 18491231 0020",
    ],
    "es-dni": [
        "12345678Z", "dni 00000000t", "99999999-R", "00.000.001-R", "X0000000T", "nie y0000000z",
        "z-0000000-m", "12345678 z multa",
    ],
    "br-cpf": [
        "123.456.789-09", "cpf 000.000.001-91", "111.444.777-35", "123456789-09", "529.982.247-25",
        "cpf 12345678909",
    ],
    "uk-nino": [
        "QQ123456C", "qq 12 34 56 a", "ni number qq123456b", "qq12 3456 d", "QQ 123456 C refund",
    ],
    "address": [
        "221b baker street", "742 evergreen terrace springfield", "12 nowhere lane", "1 Infinity Ct",
        "4500 n. elm st", "18 north oak avenue apt 4", "99 old mill rd, smallville",
        "1600 martin luther king jr blvd", "po box 1234 smallville", "p.o. box 77",
        "hauptstrasse 12", "Musterstraße 7a musterstadt", "am alten markt 3", "lindenallee 44",
        "12 rue des lilas", "3 bis, avenue du lac", "calle mayor 5", "avenida del sol, 120",
        "house for sale 77 maple drive", "5 acacia close london",
    ],
}  # fmt: skip
NOT_FOUND = [
    "twitter @janedoe", "what does @ mean", "a@b", "meet me @ 5.30", "example.com", "@media css",
    "email address search", "foo@bar", "price 20@5 each",
    "1-800 flowers", "911", "411 lookup", "windows 95", "2000-2001 schedule", "10 000 meters",
    "1234567", "isbn 0306406152", "isbn 978-3-16-148410-0", "192.168.100.1", "10.0.0.1 login",
    "3.1415926535", "1997-09-16", "16/09/1997 10:54:32", "20080601", "1234567890123",
    "0 60 mph times", "00 gauge trains", "ups 1z999aa10123456784", "model 555-1234-99x",
    "serial 2025550143a", "route 66", "$2025550143", "0.5 0.25 0.125", "05 mustang gt",
    "4111 1111 1111 1112", "1234 5678 9012 3456", "0000000000000000", "imei 490154203237518",
    "order 9999999999999995", "5555555555554445", "ean 4006381333931", "4111",
    "gb29 nwbk 6016 1331 9268 18", "de00 0000 0000 0000 0000 00", "xx12 abcd 1234 5678", "us12 test",
    "000-12-3456", "666-12-3456", "123-45-0000", "123-00-4567", "98-76-5432", "ssn", "12-345-6789",
    "part 987-65-43210", "social security office",
    "110105184912310021", "110105184913310025", "123456789012345678",
    "12345678a", "a12345678", "00000000 degrees", "x1234567a", "boeing 737 z",
    "123.456.789-00", "111.111.111-11", "123.456.789", "qq12345c", "qq123456z", "ab 12 cd",
    "sesame street", "42nd street", "10 best street foods", "21 jump street", "wall street journal",
    "5 minutes from court", "2 broke girls", "3 way switch", "50 cent", "7 days to drive",
    "20 mile road race", "calle 13", "le 20 heures", "5 place", "mailbox 12 inch", "top 10 drive ins",
    "1 street", "strasse", "weg", "9 to 5", "room on the broom", "2 door court", "hwy 101",
    "100 years war", "route 1 highway map",
]  # fmt: skip
# Written after the patterns were mended with the lists above. One fault it showed is mended since:
# "called" was taken for the Spanish "calle"; before, the precision of address was 0.73.
FRESH = {
    "email": ["write to k.lee@example.net", "zoe-may@shop.example.com", "x@y.example", "tim(at)example.com"],
    "phone": [
        "who called me from 312 555 0187", "tel. 01632 960 001", "+61 491 570 006", "06 39 98 01 02",
        "(415)555-0132", "415/555-0132", "fax +1 (415) 555-0132", "040 66969 123", "1 415 5550132",
    ],
    "address": [
        "9 rosewood crescent", "apartment at 1200 w sunset blvd", "33 the strand", "bahnhofstr. 5",
        "zum goldenen hirschen 8", "15 boulevard victor hugo", "plaza de la luna 2", "4021 county road 9",
        "7 st johns square", "27 high st",
    ],
}  # fmt: skip
FRESH_NOT = [
    "12 angry men", "100 years of solitude", "ford f 150 2004", "mp3 320 kbps", "form 1040 ez",
    "8 mile road lyrics", "28 days later", "area code 312", "zip 90210", "2006 world cup schedule",
    "1080p tv 42 inch", "blink 182 first date", "3 doors down here without you", "24 hour fitness",
    "canon eos 350d", "49ers vs 12 man squad", "5 star hotels near hyde park place", "i 95 traffic",
    "windows xp sp2 kb 835935", "lotto 04 11 23 31 40 44", "2 fast 2 furious", "16 candles drive in",
    "sony 02 12345 678 manual", "pi 3.14159 26535", "bible john 3:16", "catch 22", "101 dalmatians st",
]  # fmt: skip
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "hygiene.md"


def count_hits(hits, not_found):
    """(pattern, positives, true hits, false hits) over a labelled list."""
    screen = load()
    true, false = Counter(), Counter()
    labelled = [(label, text) for label, texts in hits.items() for text in texts]
    for label, text in [*labelled, *((None, text) for text in not_found)]:
        for name in screen.hits(normalise(text)):
            (true if name == label else false)[name] += 1
    return [(name, len(hits[name]), true[name], false[name]) for name in hits]


def line(name, positives, true, false):
    return f"| `{name}` | {positives} | {true / (true + false):.2f} | {true / positives:.2f} |"


def test_the_labelled_list_is_large_and_holds_nothing_twice():
    texts = [text for some in FOUND.values() for text in some] + NOT_FOUND
    assert len(texts) == len(set(texts)) >= 150


@pytest.mark.parametrize(("name", "positives", "true", "false"), count_hits(FOUND, NOT_FOUND))
def test_precision_and_recall_are_as_the_docs_say(name, positives, true, false):
    assert true / (true + false) >= 0.9
    assert true / positives >= 0.8
    assert line(name, positives, true, false) in DOCS.read_text()


def test_every_pattern_is_on_the_labelled_list():
    assert set(FOUND) == set(load().names)


@pytest.mark.parametrize("row", count_hits(FRESH, FRESH_NOT), ids=lambda row: row[0])
def test_the_docs_also_give_the_numbers_of_the_list_nothing_was_mended_with(row):
    assert line(*row) in DOCS.read_text()


def test_a_very_long_query_takes_no_long_time():
    for text in ("a-" * 500_000 + "@1", "1 a. " * 200_000, "0-" * 500_000):
        assert load().hits(text) in ([], ["phone"])


@given(st.text())
def test_no_query_breaks_the_screen_and_needs_is_right(text):
    screen = load()
    query = normalise(text) or ""
    if screen.hits(query):
        assert any(c in screen.needs for c in query)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("4111111111111112", "card"),
        ("gb29 nwbk 6016 1331 9268 18", "iban"),
        ("12345678a", "es-dni"),
        ("123.456.789-00", "br-cpf"),
    ],
)
def test_a_wrong_check_digit_is_no_hit(text, name):
    assert name not in load().hits(text)


def test_an_owner_replaces_or_extends_the_patterns(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("[badge]\npatterns = ['badge \\d{4}']\n")
    assert load(path).hits("badge 1234 jane@example.com") == ["badge"]
    assert load(path).needs is None
    path.write_text("extend = true\n[badge]\npatterns = ['badge \\d{4}']\n")
    assert load(path).hits("badge 1234 jane@example.com") == ["email", "badge"]
    path.write_text("extend = true\n[email]\npatterns = ['nothing']\nneeds = 'n'\n")
    assert load(path).hits("jane@example.com 987-65-4320") == ["us-ssn"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"own.toml has no pattern"),
        ("[x", r"own.toml is not TOML"),
        ("x = 1", r"\[x\] has no keys; it may have about, check, needs, patterns"),
        ("[x]\ncolour = 'red'", r"\[x\] has unknown keys colour"),
        ("[x]\npatterns = 'a'", r"\[x\] needs patterns"),
        ("[x]\npatterns = ['(']", r"\[x\] is not a regular expression"),
        ("[x]\npatterns = ['a']\ncheck = 'sum'", r"check 'sum'; there are luhn"),
        ("[x]\npatterns = ['a']\ncheck = [1]", r"check \[1\]; there are luhn"),
        ("[x]\npatterns = ['a']\nneeds = ''", r"needs ''; it is a text"),
    ],
)
def test_patterns_that_cannot_be_used_are_named(tmp_path, content, message):
    path = tmp_path / "own.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        load(path)
    with pytest.raises(UsageError, match="cannot read the patterns"):
        load(tmp_path / "nowhere.toml")


def test_denied_queries_are_normalised_and_a_star_is_a_prefix(tmp_path):
    file = tmp_path / "deny.txt"
    file.write_text("\ufeffJane  DOE\r\n\nnew york *\nsecret*\n*starred\n", encoding="utf-8")
    denied = matcher(load_deny(file))
    for query in ("jane doe", "new york hotels", "secretary", "secret", "*starred"):
        assert denied(query), query
    for query in ("jane doe 2", "new yorker", "new york", "a secret", "starred"):
        assert not denied(query), query
    with pytest.raises(UsageError, match="would drop every query"):
        matcher(frozenset(["*"]))
    with pytest.raises(UsageError, match="cannot read the queries"):
        load_deny(tmp_path / "nowhere.txt")


INVISIBLE = [
    "\u034f",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u1160",
    "\u17b4",
    "\ufe0f",
    "\U000e0101",
    "\xad",
]


@pytest.mark.parametrize("invisible", INVISIBLE)
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("jane@example.com", "email"),
        ("+49 171 1234567", "phone"),
        ("4111 1111 1111 1111", "card"),
        ("po box 1234", "address"),
    ],
)
def test_no_invisible_character_evades_a_pattern(text, name, invisible):
    screen = load()
    assert screen.hits(text) == [name]
    for place in range(len(text) + 1):
        query = normalise(text[:place] + invisible + text[place:])
        assert screen.hits(query) == [name], place
    assert screen.hits(normalise(invisible * 2000 + text)) == [name]


def test_a_joiner_that_stays_does_not_hide_what_is_around_it():
    for domain in ("می\u200cها.ir", "क्\u200dष.com"):
        query = normalise(f"jane@{domain}")
        assert "\u200c" in query or "\u200d" in query
    assert load().hits(normalise("jane@می\u200cها.ir")) == ["email"]


@pytest.mark.parametrize("invisible", INVISIBLE)
def test_no_invisible_character_evades_a_denied_query(invisible):
    denied = matcher(frozenset(["jane doe", "secret plan*", f"hid{invisible}den"]))
    for text in ("jane doe", "secret plan", "secret plans", "hidden"):
        for place in range(len(text) + 1):
            assert denied(normalise(text[:place] + invisible + text[place:])), place
    persian = matcher(frozenset(["می\u200cخواهم*"]))
    assert persian("می\u200cخواهم")
    assert persian("میخواهم بروم")
    assert not persian("می")


ROWS = [
    {"user": "a", "query": "Red Shoes"},
    {"user": "a", "query": "JANE@Example.com"},
    {"user": "b", "query": "jane@example.com"},
    {"user": "b", "query": "jane@example.com 202-555-0143"},
    {"user": "c", "query": "2025550143"},
    {"user": "c", "query": "secret plan"},
    {"user": "c", "query": "secret plan b"},
]


def test_rows_with_a_hit_are_dropped_and_counted_once(write_tsv):
    with connect() as engine:
        log = read(
            find(str(write_tsv(ROWS))),
            engine=engine,
            screen=load(),
            deny=frozenset(["Secret  Plan"]),
        )
        assert sorted(row["query"] for row in rows_of_log(log)) == ["red shoes", "secret plan b"]
    assert log.rows == 2
    assert log.screened == {"denied": 1, "screened: email": 3, "screened: phone": 1}
    assert log.broken == {}


def test_without_a_screen_nothing_is_dropped(write_tsv):
    with connect() as engine:
        log = read(find(str(write_tsv(ROWS))), engine=engine)
    assert (log.rows, log.screened) == (7, {})


def test_profile_counts_every_pattern_and_drops_nothing(write_tsv):
    seen = profile(str(write_tsv(ROWS)))
    assert seen["rows"] == 7
    assert seen["screened"] == {"email": 3, "phone": 2}


def test_a_log_that_is_screened_away_is_refused_without_its_content(write_tsv):
    source = find(str(write_tsv(ROWS[1:4])))
    with (
        pytest.raises(InputError, match="no usable rows: 3 x screened: email") as caught,
        connect() as engine,
    ):
        read(source, engine=engine, screen=load())
    assert "jane" not in str(caught.value)


@given(content=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t"), max_size=30))
def test_screening_one_query_says_nothing_about_another(content):
    # A pure function of one record: the same answer whatever was asked before.
    screen = load()
    before = screen.hits("jane@example.com")
    screen.hits(normalise(content) or "")
    assert screen.hits("jane@example.com") == before == ["email"]


LABELLED = [*NOT_FOUND, *FRESH_NOT, *(t for of in (FOUND, FRESH) for ts in of.values() for t in ts)]


@settings(deadline=None, max_examples=60)
@given(
    first=st.sampled_from(LABELLED), second=st.sampled_from(LABELLED), cut=st.integers(0, 40),
    more=st.text("0123456789 .-@st", max_size=4),
)  # fmt: skip
def test_what_may_not_hit_does_not_hit(first, second, cut, more):
    screen = load()
    texts = [
        normalise(t)
        for t in (first, second, first[:cut] + more + second[cut:], first + " " + second)
    ]
    texts = [t for t in texts if t]
    may = screen.suspects(pa.array(texts, pa.string())).to_pylist()
    for place, text in enumerate(texts):
        assert place in may or not screen.hits(text), text

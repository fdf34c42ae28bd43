"""The normaliser: same query, same text; a fixed point; nothing but the string itself matters."""

import re
import sys
import time
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.bundle import joiners
from murmurlog.bundle.keys import (
    _PLAIN_URL,
    _WORDS,
    ALREADY_NORMAL,
    MOST_MARKS,
    NORMALISER,
    URL_LEVELS,
    VERSIONS,
    _compose,
    clean_url,
    is_ignorable,
    keywords,
    normalise,
)

VIRAMA, ZWNJ, ZWJ = "\u094d", "\u200c", "\u200d"
EVERY = [chr(code) for code in range(sys.maxunicode + 1)]


def unicode_property(name):
    """The characters that Unicode's own files give a property: see the head of the file."""
    characters = set()
    for line in (Path(__file__).with_name("unicode_properties.txt")).read_text().splitlines():
        codes, _, value = line.partition("#")[0].partition(";")
        if value.strip() == name:
            first, _, last = codes.strip().partition("..")
            characters |= set(map(chr, range(int(first, 16), int(last or first, 16) + 1)))
    assert characters
    return characters


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  Hello\tWORLD \n", "hello world"),
        ("ＡＢＣ　ｄ", "abc d"),
        ("İstanbul", "i̇stanbul"),
        ("ΣΑΣ", "σασ"),
        ("ﬁne", "fine"),
        ("straße", "strasse"),
        ("a\u200bb\u00adc", "abc"),
        ("\u202egnirts", "gnirts"),
        ("x\x00y\x07z", "x y z"),
        ("e\u0301", "é"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("wea\u034fther", "weather"),
        ("wea\u200dther\ufe0f", "weather"),
        ("\u115fw\u1160e\u17b4a\u3164t\uffa0her", "weather"),
        ("weather\u2800today", "weather today"),
        ("e\u034f\u0301", "é"),
        ("\u2764\ufe0f", "\u2764"),
        ("\u2800\u1160", None),
        ("\u2028", None),
        ("", None),
        ("\ue000", None),
    ],
)
def test_normalise_worked_cases(raw, clean):
    assert normalise(raw) == clean


@given(st.text())
def test_normalise_is_a_fixed_point_without_invisible_characters(text):
    once = normalise(text)
    if once is None:
        return
    assert normalise(once) == once
    assert once == once.strip()
    assert "  " not in once
    assert not any(unicodedata.category(c) in ("Cc", "Co", "Cs", "Zl", "Zp") for c in once)


@given(st.from_regex(re.compile(ALREADY_NORMAL, re.ASCII), fullmatch=True))
def test_what_the_engine_skips_is_normal_already(text):
    assert normalise(text) == text


def test_the_normaliser_names_its_version():
    assert f"nfkc-casefold-2 (unicode {unicodedata.unidata_version})" == NORMALISER
    assert list(VERSIONS.values()) == [1, 2]


def test_ignorable_is_what_unicode_says_for_every_code_point():
    # The same set in every Unicode version of a Python that is supported, 14.0 to 16.0.
    wanted = unicode_property("Default_Ignorable_Code_Point") - {ZWNJ, ZWJ}
    assert set(filter(is_ignorable, EVERY)) == wanted
    for c in wanted:
        assert normalise(f"wea{c}ther") == "weather", hex(ord(c))
        assert normalise(c) is None
        assert clean_url(f"http://exa{c}mple.com/pa{c}th?q{c}=1", "full") == "example.com/path?q=1"


def test_no_code_point_leaves_an_invisible_one_behind():
    """Nor does any become one: `normalise` takes ignorable ones away before all else."""
    for start in range(0, len(EVERY), 64):
        text = normalise("a".join(EVERY[start : start + 64])) or ""
        rest = text.replace(ZWNJ, "").replace(ZWJ, "")
        assert not any(map(is_ignorable, rest))
        assert rest.isprintable()
        assert normalise(text) == text


def test_visible_code_points_stay():
    """What has a shape of its own is never taken away, whatever its category."""
    gone = unicode_property("Default_Ignorable_Code_Point") | {"\u2800"}
    for c in filter(str.isprintable, EVERY[:0x3100]):
        if c not in gone and not c.isspace():
            assert normalise(c), hex(ord(c))


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian: a prefix that does not join
        "بِ\u200cبَ",  # marks do not count
        "क्\u200dष",  # Devanagari: half a letter
        "क्\u200cष",  # Devanagari: a visible virama
        "അവന്\u200d",  # Malayalam: a chillu, at the end of a word
        "ක්\u200dෂ",  # Sinhala
        "র\u200d্যাম",  # Bengali: ra with ya-phalaa
        "👩\u200d🔬",
        "👩🏽\u200d🚀",
        "👨\u200d👩\u200d👧\u200d👦",
        "❤\u200d🔥",
        "🙂\u200d↔",
    ],
)
def test_joiners_stay_where_they_show(text):
    assert normalise(text) == text
    assert normalise(text.replace(ZWJ, ZWJ + ZWJ).replace(ZWNJ, ZWNJ + ZWNJ)) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("wea\u200dther", "weather"),
        ("wea\u200cther", "weather"),
        ("\u200dweather\u200c", "weather"),
        ("auf\u200clage", "auflage"),
        ("1\u200d2", "12"),
        ("क\u200dष", "कष"),
        ("کار\u200cها", "کارها"),  # reh does not join what follows
        ("می\u200c", "می"),
        ("می\u200c خواهم", "می خواهم"),
        ("می\u200dخواهم", "میخواهم"),
        ("👩\u200d", "👩"),
        ("👩\u200da", "👩a"),
        ("\u200d" + VIRAMA, VIRAMA),
        ("क" + VIRAMA + "\u034f\u200d" + "ष", "क्\u200dष"),
        ("e\u200d\u0301", "é"),
    ],
)
def test_joiners_go_where_they_hide(text, clean):
    assert normalise(text) == clean


def test_joining_letters_and_emoji_are_unicodes():
    d, left, right = (unicode_property(f"Joining_Type={kind}") for kind in "DLR")
    assert d | left == joiners.JOINS_NEXT
    assert d | right == joiners.JOINS_PREVIOUS
    assert unicode_property("Extended_Pictographic") == joiners.EMOJI


ODD_ONES = "\u200c\u200d\u034f\ufe0f\u2800\u1160\u00adabİىبر\u064b\u0345\u0301\u0323क\u093cष्👩🔬🏽 "


@given(st.text(ODD_ONES))
def test_it_is_a_fixed_point_where_joiners_and_marks_meet(text):
    once = normalise(text) or ""
    assert (normalise(once) or "") == once
    for word in keywords(once):
        assert normalise(word) == word


@given(st.text(ODD_ONES), st.sampled_from(["\u034f", "\ufe0f", "\u00ad", "\u1160"]), st.data())
def test_an_invisible_character_more_makes_no_other_query(text, invisible, data):
    place = data.draw(st.integers(0, len(text)))
    assert normalise(text[:place] + invisible + text[place:]) == normalise(text)


@pytest.mark.parametrize(
    "part",
    [
        "\u0315\u0323",
        "\u0315\u034f\u0323",
        "\u0315\ue000\u0323",
        "\u200c",
        "ب\u200c",
        "ب\u064b\u200c",
    ],
)
def test_time_grows_with_the_length(part):
    """Marks out of order took the square of their number: more than an hour for these."""
    started = time.process_time()
    text = normalise("ب" + part * 100_000)
    assert time.process_time() - started < 20
    assert normalise(text[:1000])


@given(st.text(st.sampled_from("a\u0315\u0323\u0301\u0344\u0345éक़"), max_size=60))
def test_marks_that_are_sorted_before_give_the_same_normal_form(text):
    long = text + "b" * MOST_MARKS
    for form in ("NFC", "NFKC"):
        assert _compose(long, form) == unicodedata.normalize(form, long)


def test_the_rules_of_version_1_are_kept():
    for text in ("wea\u034fther", "wea\u200dther", "\u2800", "❤\ufe0f", "می\u200d"):
        assert normalise(text, version=1) == text
        assert normalise(text) != text
    assert normalise("  Hello\tWORLD \u200b", version=1) == "hello world"


def test_keywords_are_distinct_words_in_order():
    assert keywords("how to fix a bike to-day, how?") == ["how", "to", "fix", "a", "bike", "to-day"]
    assert keywords("rock'n'roll 3.5 c++") == ["rock'n'roll", "3.5", "c"]
    assert keywords("!!!") == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("书", ["书"]),
        ("360安全卫士", ["360", "安全", "全卫", "卫士"]),
        ("红楼梦 下载", ["红楼", "楼梦", "下载"]),
        ("iphone手机壳", ["iphone", "手机", "机壳"]),
        ("東京タワー 行き方", ["東京", "タワー", "行", "方"]),
        ("りんごの食べ方", ["りんごの", "食", "方"]),
        ("ありがとう", ["あり", "りが", "がと", "とう"]),
        ("の", ["の"]),
        ("ソニー・エリクソン", ["ソニー", "エリクソン"]),
        ("โรงแรมราคาถูก", ["โรง", "แรม", "รา", "คา", "ถูก"]),
        ("เครื่องบิน", ["เครื่อง", "บิน"]),
        ("มือสอง", ["มือ", "สอง"]),
        ("ประเทศไทย", ["ประ", "เทศ", "ไทย"]),
        ("วันจันทร์", ["วัน", "จันทร์"]),
        ("서울 날씨", ["서울", "날씨"]),
        ("हिन्दी गाने", ["हिन्दी", "गाने"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("क्\u200dष അവന്\u200d", ["क्\u200dष", "അവന്\u200d"]),
        ("漢\u200d字 wea\u034fther", ["漢字", "weather"]),
        ("ก\u0e3a\u200dก", ["ก\u0e3a", "ก"]),
        ("café l'été naïve", ["café", "l'été", "naïve"]),
        ("漢-字", ["漢", "字"]),
    ],
)
def test_keywords_of_scripts_without_spaces_are_cut_by_rule(query, words):
    assert keywords(normalise(query)) == words


@given(st.text())
def test_keywords_lose_and_invent_nothing_but_single_hiragana(text):
    query = normalise(text) or ""
    words = keywords(query)
    assert all(word and word in query for word in words)
    assert len(words) == len(set(words))
    left = {c for c in query if c.isalnum()} - set("".join(words))
    assert all("\u3041" <= c <= "\u309f" for c in left)


@given(st.from_regex(r"[a-zà-öø-ÿ]+( [a-zà-öø-ÿ'.-]+){0,3}", fullmatch=True))
def test_latin_words_are_cut_as_ever(text):
    query = normalise(text) or ""
    assert keywords(query) == list(dict.fromkeys(_WORDS.findall(query)))


CUTS = URL_LEVELS[:3]


@pytest.mark.parametrize(
    ("url", "host", "path", "full"),
    [
        ("http://www.Example.com/A/b/?q=1#x", "example.com", "example.com/A/b", "example.com/A/b?q=1"),
        ("https://example.com:443/", "example.com", "example.com", "example.com"),
        ("http://me:secret@x.org:8080/p", "x.org:8080", "x.org:8080/p", "x.org:8080/p"),
        ("HTTP://X.org/ a", "x.org", "x.org/a", "x.org/a"),
        ("//www.X.org:80/A/", "x.org:80", "x.org:80/A", "x.org:80/A"),
        ("http://bücher.example/ä", "bücher.example", "bücher.example/ä", "bücher.example/ä"),
        ("http://exa\u034fmple.com/a\ufe0f\u2800b\u200d", "example.com", "example.com/ab", "example.com/ab"),
        ("me:pw@http://x.org/A", "x.org", "x.org/A", "x.org/A"),
        ("http://[bad", None, None, None),
        ("http:///a", None, None, None),
        ("http://./a", None, None, None),
        ("http://x\uff0fy.com/", None, None, None),
        ("http://x.com:99999/", None, None, None),
        ("http://" + "x" * (MOST_MARKS + 1), None, None, None),
    ],
)  # fmt: skip
def test_urls_are_cut_at_the_level_asked_for(url, host, path, full):
    assert [clean_url(url, level) for level in CUTS] == [host, path, full]


@pytest.mark.parametrize(
    ("text", "host", "path", "full"),
    [
        ("example.com", "example.com", "example.com", "example.com"),
        ("doc-17", "doc-17", "doc-17", "doc-17"),
        ("aBcD", "aBcD", "aBcD", "aBcD"),
        ("P00038", "P00038", "P00038", "P00038"),
        ("SKU 12/A", "SKU 12", "SKU 12/A", "SKU 12/A"),
        ("doi:10.1000/182", "doi:10.1000", "doi:10.1000/182", "doi:10.1000/182"),
        ("[bad", "[bad", "[bad", "[bad"),
        ("www.X.com/A/?q=1#x", "www.X.com", "www.X.com/A/", "www.X.com/A/?q=1"),
        ("X.com/a?u=http://y.com", "X.com", "X.com/a", "X.com/a?u=http://y.com"),
        ("X.com//a", "X.com", "X.com//a", "X.com//a"),
        ("/Products/12 ?id=7", None, "/Products/12", "/Products/12 ?id=7"),
        ("me:secret@X.org/p@q", "X.org", "X.org/p@q", "X.org/p@q"),
        ("mailto:me@X.org", "X.org", "X.org", "X.org"),
        (" e\u0301\t1 \u200b", "\u00e9 1", "\u00e9 1", "\u00e9 1"),
        ("?q=1", None, None, "?q=1"),
        ("#x", None, None, None),
        ("", None, None, None),
    ],
)  # fmt: skip
def test_what_names_no_host_by_two_slashes_loses_only_what_can_be_personal(text, host, path, full):
    assert [clean_url(text, level) for level in CUTS] == [host, path, full]


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("aBcD", "aBcD"),
        ("http://www.X.com/A/?q=1#x", "http://www.X.com/A/?q=1#x"),
        ("C#12?x@y", "C#12?x@y"),
        ("  a  b\t\nc ", "a  b  c"),
        ("e\u0301\ufb01", "\u00e9\ufb01"),
        ("a\u202eb\u00ad\ue000\ud800c", "abc"),
        ("\u0645\u06cc\u200c\u0634", "\u0645\u06cc\u200c\u0634"),
        ("\x00\u200b", None),
    ],
)
def test_an_id_stays_as_it_is(text, id):
    assert clean_url(text, "id") == id


@pytest.mark.parametrize("level", URL_LEVELS)
def test_ids_that_differ_in_case_stay_apart(level):
    assert [clean_url(text, level) for text in ("aBcD", "abcd")] == ["aBcD", "abcd"]


@settings(deadline=None)
@given(st.text(), st.sampled_from(URL_LEVELS))
def test_a_clean_id_is_a_fixed_point_and_one_printable_line(text, level):
    text = text.replace(":", "").lstrip("/")
    clean = clean_url(text, level)
    if clean is not None and level == "id":
        assert clean_url(clean, level) == clean
        assert unicodedata.is_normalized("NFC", clean)
        assert all(c.isprintable() or c in (ZWNJ, ZWJ) for c in clean)
    if text.isascii() and text.isprintable() and clean is not None:
        assert clean in text


@settings(deadline=None)
@given(
    st.from_regex(re.compile(_PLAIN_URL.pattern, re.ASCII), fullmatch=True),
    st.sampled_from(CUTS),
)
def test_the_short_cut_for_plain_urls_agrees_with_the_general_code(url, level):
    assert clean_url(url, level) == clean_url(url.replace("//", "//me@", 1), level)


@settings(deadline=None)
@given(st.text(), st.sampled_from(CUTS))
def test_no_url_raises_and_no_password_stays(text, level):
    clean_url(text, level)
    for start in ("http://", "//", ""):
        cleaned = clean_url(f"{start}name:hunter2@host.example/{text}", level)
        assert cleaned is None or "hunter2" not in cleaned or "hunter2" in text


MARKED = st.text(st.sampled_from("a/\u0315\u0323\u0301\u0344\u0345éक़\uff9e\u3099ḝ=\u0338"))


@settings(deadline=None)
@given(MARKED, MARKED)
def test_a_long_path_is_that_of_nfc(path, more):
    """Combining marks of a long text are sorted before NFC."""
    text = path + "b" * MOST_MARKS + more
    clean = unicodedata.normalize("NFC", f"/{text}")
    assert clean_url(f"http://x.com/{text}", "path") == f"x.com{clean}".rstrip("/")
    assert clean_url(f"x.com/{text}", "path") == f"x.com{clean}"
    assert clean_url(text, "id") == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("level", URL_LEVELS)
@pytest.mark.parametrize(
    "form", ["{}", "http://{}", "http://{}@x.com", "http://x.com/{}", "x.com/{}?{}"]
)
@pytest.mark.parametrize("marks", ["\u0301\u0327", "\u0301\uff9e", "\u0301\ue000\u0327\ue000"])
def test_no_url_makes_unicode_sort_many_marks(form, marks, level, monkeypatch):
    """NFC and NFKC sort by insertion, in quadratic time: each mark before a smaller one costs them."""
    falls, normalize = [], unicodedata.normalize

    def count(form, text):
        kind = "NFKD" if "K" in form else "NFD"
        classes = [unicodedata.combining(part) for c in text for part in normalize(kind, c)]
        falls.append(sum(a > b > 0 for a, b in pairwise(classes)))
        return normalize(form, text)

    text = form.format(*[marks * MOST_MARKS] * 2)
    monkeypatch.setattr(unicodedata, "normalize", count)
    clean_url(text, level)
    assert max(falls, default=0) <= 1

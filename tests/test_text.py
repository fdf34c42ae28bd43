"""The normaliser: same query, same text; a fixed point; nothing but the string itself matters."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmurlog.text import (
    _PLAIN_URL,
    _WORDS,
    ALREADY_NORMAL,
    NORMALISER,
    URL_LEVELS,
    clean_url,
    keywords,
    normalise,
)


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
    assert f"nfkc-casefold-1 (unicode {unicodedata.unidata_version})" == NORMALISER


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


@pytest.mark.parametrize(
    ("url", "host", "path", "full"),
    [
        ("http://www.Example.com/A/b/?q=1#x", "example.com", "example.com/A/b", "example.com/A/b?q=1"),
        ("https://example.com:443/", "example.com", "example.com", "example.com"),
        ("http://me:secret@x.org:8080/p", "x.org:8080", "x.org:8080/p", "x.org:8080/p"),
        ("example.com", "example.com", "example.com", "example.com"),
        ("doc-17", "doc-17", "doc-17", "doc-17"),
        ("http://bücher.example/ä", "bücher.example", "bücher.example/ä", "bücher.example/ä"),
        ("[bad", None, None, None),
        ("", None, None, None),
        ("http://x.com:99999/", None, None, None),
    ],
)  # fmt: skip
def test_urls_are_cut_at_the_level_asked_for(url, host, path, full):
    assert [clean_url(url, level) for level in URL_LEVELS] == [host, path, full]


@given(
    st.from_regex(re.compile(_PLAIN_URL.pattern, re.ASCII), fullmatch=True),
    st.sampled_from(URL_LEVELS),
)
def test_the_short_cut_for_plain_urls_agrees_with_the_general_road(url, level):
    general = clean_url(url.replace("//", "//me@", 1) if "//" in url[:8] else f"//me@{url}", level)
    assert clean_url(url, level) == general


@given(st.text(), st.sampled_from(URL_LEVELS))
def test_no_url_raises_and_no_password_stays(text, level):
    clean_url(text, level)
    cleaned = clean_url(f"http://name:hunter2@host.example/{text}", level)
    assert cleaned is None or "hunter2" not in cleaned or "hunter2" in text

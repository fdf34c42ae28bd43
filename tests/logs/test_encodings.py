"""Encodings: text can be cut into records before it is decoded, and unknown names are explained."""

import codecs

import pytest
from log_readers import read_rows

from murmurlog.errors import UsageError
from murmurlog.logs.encodings import ENCODINGS, HIGH, LOWEST_LATER_BYTE, MIXED, check_encoding

WORDS = {
    "utf-8": "süß 红", "utf-16": "süß 红", "latin-1": "süß", "cp1252": "süß € – x", "cp1250": "šárka",
    "cp1251": "привет", "koi8-r": "привет", "iso-8859-7": "γεια", "shift_jis": "表|ソ", "euc-jp": "日本",
    "euc-kr": "한국", "big5": "功能|許", "gb18030": "红|楼𠀀",
}  # fmt: skip


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name != "utf-16"])
def test_bytes_of_ascii_are_ascii_and_nothing_else_is(encoding):
    assert bytes(range(128)).decode(encoding) == "".join(map(chr, range(128)))
    assert b"\x1b$B~{a+AGE-\n".decode(encoding) == "\x1b$B~{a+AGE-\n"  # no state
    for first in range(128, 256):
        for later in range(256):
            try:
                text = bytes([first, later]).decode(encoding)
            except UnicodeDecodeError:
                continue
            inside = [c for c in text if ord(c) < 128]
            if later < 128 and inside != [chr(later)]:  # a part of another character
                assert encoding in MIXED
                assert later >= LOWEST_LATER_BYTE
                assert inside == []
            assert later < 128 or inside == []


@pytest.mark.parametrize("encoding", WORDS)
@pytest.mark.parametrize("delimiter", [",", "|"])
def test_text_is_read_in_its_encoding(encoding, delimiter, tmp_path):
    word = WORDS[encoding].replace("|", "" if delimiter == "|" else "|")
    path = tmp_path / "log.csv"
    text = f"user{delimiter}query\na{delimiter}{word}\nb{delimiter}x\n"
    path.write_bytes(text.encode(encoding) if encoding != "latin-1" else text.encode("iso8859-1"))
    rows, _ = read_rows(path, source_options={"encoding": encoding, "delimiter": delimiter})
    assert sorted((row["user"], row["query"]) for row in rows) == [
        ("a", " ".join(word.casefold().split())), ("b", "x")
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", [*MIXED, *HIGH])
def test_a_record_that_cannot_be_decoded_takes_no_other_with_it(encoding, tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"user|query\na|x\nb|\x81\xff\nc|\xfe\nd|y\n\x80")
    rows, broken = read_rows(path, source_options={"encoding": encoding, "delimiter": "|"})
    assert {row["user"] for row in rows} == {"a", "d"}
    assert sum(broken.values()) == 3


@pytest.mark.parametrize(("name", "means"), [("UTF8", "utf-8"), ("utf-8-sig", "utf-8"), ("sjis", "shift_jis"),
                                              ("windows-1252", "cp1252"), ("iso-8859-1", "latin-1")])  # fmt: skip
def test_other_names_of_an_encoding_are_known(name, means):
    assert check_encoding(name) == means
    assert codecs.lookup(means).name == codecs.lookup(name).name.removesuffix("-sig")


@pytest.mark.parametrize(
    ("name", "why"),
    [("utf9", "is not known: did you mean utf-8"), ("cp12520", "did you mean cp1252"), ("zzz", "known are utf-8"),
     ("iso-2022-jp", "cannot be read record by record"), ("utf-7", "cannot be read"), ("hex", "cannot be read"),
     ("cp500", "cannot be read"), ("\0", "is not known")],
)  # fmt: skip
def test_an_encoding_that_is_not_read_is_refused(name, why):
    with pytest.raises(UsageError, match=why):
        check_encoding(name)

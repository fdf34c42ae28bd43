"""The delimiter of a text is the one that gives lines as many fields as the header has."""

import pytest

from murmurlog.logs.inspection.delimiters import count_fields, detect

QUOTED = b'user;query\n1;"a; b"\n2;"say ""x; y"""\n3;"two\nlines"\n'


def test_a_delimiter_in_quotes_does_not_count():
    assert count_fields(QUOTED, ";")[";"].tolist() == [2, 2, 2, 0, 0]
    found = detect([QUOTED])
    assert (found.character, found.fields, found.share) == (";", 2, 1.0)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (b"id;q;price\n1;a b;0,5\n2;c d;1,5\n3;e;2,5\n", ";"),  # a decimal comma in every line
        (b"id,q\n1,a b\n2,c d\n3,e f\n", ","),  # a space in every line but the header
        (b"id q\n1 a\n2 b\n3 c\n", " "),
        (b"id|q\r\n1|a, b\r\n2|c, d\r\n", "|"),
    ],
)
def test_a_sign_that_the_header_does_not_have_is_no_delimiter(text, delimiter):
    assert detect([text]).character == delimiter


def test_two_signs_that_fit_alike_are_both_said():
    found = detect([b"a,b;c\n1,2;3\n4,5;6\n"])
    assert {found.character, *found.others} == {",", ";"}


def test_blocks_add_up():
    lines = [b"id;q\n", b"1;a\n", b"2;b;c\n", b"3;d\n", b"\n"]
    found = detect(lines)
    assert (found.fields, found.share) == (2, 0.75)
    assert detect([b"one\n", b"two\n"]) is None

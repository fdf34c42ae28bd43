"""The delimiter, the quotes and the header of a text, as the sniffer sees its first lines."""

import pytest

from murmurlog.logs.inspection.delimiters import LONGEST, detect

LINES = b"".join(b"u%d;%d;two, words\n" % (n % 7, n) for n in range(200))


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (b"id;q;price\n1;a b;0,5\n2;c d;1,5\n3;e;2,5\n", ";"),  # a decimal comma in every line
        (b"id,q\n1,a b\n2,c d\n3,e f\n", ","),  # a space in every line but the header
        (b"id q\n1 a\n2 b\n3 c\n", " "),
        (b"id|q\r\n1|a, b\r\n2|c, d\r\n", "|"),
        (b'user;query\n1;"a; b"\n2;"say ""x; y"""\n3;"two\nlines"\n', ";"),
    ],
)
def test_a_sign_that_the_header_does_not_have_is_no_delimiter(text, delimiter):
    assert detect([text]).character == delimiter


@pytest.mark.parametrize(
    "odd",
    [
        b"u1;2;a;more\n",
        b"oops\n",
        b'u1;2;"open\n',
        b'u1;2;15" tv\n',
        b"u1;2;a\0b\n",
        b"u1;2;windows\r\n",
        b"\n",
        b"u1;2;" + b"x" * LONGEST + b"\n",
    ],
)
def test_odd_lines_change_nothing(odd):
    found = detect([b"id;n;text\n" + LINES + odd + LINES])
    assert (found.character, found.fields, found.header) == (";", 3, True)


def test_a_first_line_like_the_others_is_no_header():
    assert not detect([b"7;7;seven\n" + LINES.replace(b"u", b"")]).header


def test_lines_of_one_field_have_no_delimiter():
    assert detect([b"one\n", b"two\n"]) is None
    assert detect([]) is None


def test_a_delimiter_that_is_named_is_taken():
    text = b"a,b;c\n" + b"1,2;3\n" * 9
    assert detect([text]).character == ","
    assert detect([text], ";").fields == 2
    assert detect([text], "'") is None

"""Cutting text: a function of the bytes, RFC 4180 strictly, whatever the borders of pieces are."""

import csv
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from murmurlog.errors import InputError
from murmurlog.logs import records
from murmurlog.logs.records import COMMAS, LINES, TABS, cut, first_fields

FIELD = st.text(st.sampled_from('ab",\n\r\t é'), max_size=6)


def fields_of(content, dialect, *, size=1 << 20, encoding="utf-8", broken=None):
    """The records of some bytes that come in pieces of a size, as lists of fields."""
    fields = []
    stream = (content[i : i + size] for i in range(0, len(content), size))
    counted = {} if broken is None else broken
    for some in cut(stream, dialect, encoding=encoding, broken=counted, name="log"):
        texts = some.fields.to_pylist()
        for start, count, empty in zip(some.starts, some.counts, some.empty, strict=True):
            fields += [] if empty else [texts[start : start + count]]
    return fields


@given(rows=st.lists(st.lists(FIELD, min_size=2, max_size=4), max_size=6), size=st.integers(1, 9))
@example(rows=[["a", 'say "hi"\r\nx,y'], ["", ""]], size=1)
@settings(max_examples=300, deadline=None)
def test_what_a_writer_of_csv_writes_is_read_back_whatever_the_borders(rows, size):
    for quoting, end in ((csv.QUOTE_ALL, "\n"), (csv.QUOTE_MINIMAL, "\r\n")):
        text = io.StringIO(newline="")
        csv.writer(text, quoting=quoting, lineterminator=end).writerows(rows)
        assert fields_of(text.getvalue().encode(), COMMAS, size=size) == rows


@given(content=st.binary(max_size=60), size=st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_borders_of_pieces_change_nothing(content, size):
    content = content.replace(b"\x00", b'"').replace(b"\x01", b"\n").replace(b"\x02", b",")
    for dialect in (LINES, TABS, COMMAS):
        for encoding in ("utf-8", "utf-16", "gb18030", "latin-1"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(records, "LONGEST_RECORD", 9)
                seen = []
                for piece in (size, 1 << 20):
                    broken = {}
                    try:
                        seen.append((fields_of(content, dialect, size=piece, encoding=encoding, broken=broken), broken))  # fmt: skip
                    except InputError as error:
                        seen.append(str(error))
            assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b'a,b\n1,5" disk\n2,c\n', 2, "occurs inside a field that is not quoted"),
        (b'a,b\n1,"x"y\n2,c\n', 2, "text follows a closing quote"),
        (b'a,b\n1,x\n2,"never\n3,closed\n', 3, "never closed"),
        (b'a,b\n1,"x\ny"\n2, "z"\n', 4, "occurs inside a field"),
        (b'a,"\n1,x\n', 1, "never closed"),
        (b'a,b\n1,x\r"y"\n', 2, "occurs inside a field"),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_a_csv_with_quotes_that_do_not_match_is_refused_with_the_line(content, line, words, size):
    with pytest.raises(InputError, match=rf"log, line {line}: .*{words}"):
        fields_of(content, COMMAS, size=size)


def test_a_record_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(records, "MOST_HELD", 100)
    with pytest.raises(InputError, match="log, line 2: a record of more than"):
        fields_of(b"a\tb\n" + b"x" * 200, TABS, size=10)
    with pytest.raises(InputError, match='log, line 2: the quote \\("\\) that opens'):
        fields_of(b'a,b\n"' + b"x\n" * 200, COMMAS, size=10)


def test_a_mark_is_no_part_of_a_quoted_header():
    content = b'\xef\xbb\xbf"user","query"\n1,x\n'
    for size in (1, 2, 100):
        assert fields_of(content, COMMAS, size=size) == [["user", "query"], ["1", "x"]]


def test_the_first_record_is_judged_alone():
    stream = iter([b"user,query\n\xff,x\n"])
    assert first_fields(stream, COMMAS, encoding="utf-8", name="log") == ("user", "query")
    assert first_fields(iter([b"\xff,x\na,b\n"]), COMMAS, encoding="utf-8", name="log") is None
    assert first_fields(iter([]), COMMAS, encoding="utf-8", name="log") is None

"""Well-known logs are read as they are; what a file is, is said by its name, its header or a flag."""

import gzip

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_readers import read_rows

from murmurlog.errors import InputError
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.source import find
from murmurlog.publishing.planning.exact_profile import profile

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
AOL = HEADER + (
    "7\tRed Shoes\t2006-03-01 07:17:12\t1\thttp://www.shoes.example\n"
    '7\t5" pipe\t2006-03-02 10:00:00\t\t\n'
    "8\tred shoes\t2006-03-03 11:00:00\n"
)
AOL_ROWS = [
    ("7", "2006-03-01 07:17:12", "red shoes", "shoes.example", 1),
    ("7", "2006-03-02 10:00:00", '5" pipe', None, None),
    ("8", "2006-03-03 11:00:00", "red shoes", None, None),
]
SOGOU = (
    "00:00:05\t2982199073774412\t[红楼梦]\t8 3\twww.example.cn/a\n"
    '0:00:07\t07594220010824798\t["下载 ]\t1 1\tnews.example.cn/\n'
    "23:59:59\tu3\t[[x]]\t2 10\twww.example.cn/b?c=1\n"
)
SOGOU_ROWS = [
    ("07594220010824798", "00:00:07", '"下载', "news.example.cn/", 1),
    ("2982199073774412", "00:00:05", "红楼梦", "www.example.cn/a", 8),
    ("u3", "23:59:59", "[x]", "www.example.cn/b", 2),
]
EXCITE = "2A9E\t970916105432\t+md foods +proteins\nBED7\t970916001949\tyahoo chat\nBED7\t990101000000\t\n"
EXCITE_ROWS = [
    ("2A9E", "1997-09-16 10:54:32", "+md foods +proteins", None, None),
    ("BED7", "1997-09-16 00:19:49", "yahoo chat", None, None),
]


def rows_of(path, *, shape=None, encoding=None, **options):
    """(rows in order, broken, shape) of a source; `shape` is --shape."""
    source_options = {"shape": shape, "encoding": encoding}
    rows, broken = read_rows(path, source_options=source_options, **options)
    plain = [
        (r["user"], str(r["time"] or "") or None, r["query"], r["url"], r["rank"]) for r in rows
    ]
    return sorted(plain, key=str), broken, find(str(path), SourceOptions(**source_options)).shape


@pytest.mark.parametrize("name", ["user-ct-test-collection-01.txt", "log", "log.tsv"])
def test_aol_is_told_by_its_header_whatever_its_name(tmp_path, name):
    (tmp_path / name).write_text(AOL)
    assert rows_of(tmp_path / name) == (AOL_ROWS, {}, "aol")


def test_a_folder_of_aol_files_is_read_packed_or_not_and_the_readme_is_not(tmp_path):
    (tmp_path / "U500k_README.txt").write_text("500k User Session Collection\n\nread me\n")
    lines = AOL.splitlines(keepends=True)[1:]
    (tmp_path / "user-ct-test-collection-01.txt").write_text(HEADER + lines[0])
    (tmp_path / "user-ct-test-collection-02.txt.gz").write_bytes(
        gzip.compress((HEADER + lines[1]).encode())
    )
    zst = pa.Codec("zstd").compress((HEADER + lines[2]).encode()).to_pybytes()
    (tmp_path / "user-ct-test-collection-03.txt.zst").write_bytes(zst)
    assert rows_of(tmp_path) == (AOL_ROWS, {}, "aol")
    with pytest.raises(InputError, match=r"cannot tell the format of U500k_README.txt: rename"):
        find(str(tmp_path / "*.txt"))


def test_a_file_is_packed_as_its_name_says_or_refused(tmp_path):
    (tmp_path / "log.tsv").write_bytes(gzip.compress(AOL.encode()))
    with pytest.raises(
        InputError, match=r"log.tsv is compressed with gzip, which its name does not"
    ):
        find(str(tmp_path / "log.tsv"))
    (tmp_path / "log.tsv.gz").write_text(AOL)
    with pytest.raises(InputError, match=r"log.tsv.gz is not compressed with gzip"):
        find(str(tmp_path / "log.tsv.gz"))


def test_a_csv_with_the_header_of_aol_says_what_it_is(tmp_path):
    (tmp_path / "a.csv").write_text(AOL)
    with pytest.raises(InputError, match="Its first line holds tabs: rename it to .tsv"):
        find(str(tmp_path / "a.csv"))
    assert rows_of(tmp_path / "a.csv", shape="aol") == (AOL_ROWS, {}, "aol")


def test_rows_never_say_what_a_file_is(tmp_path):
    """One user's rows at the head of a file settled how all others were read."""
    tabbed = "\n".join(f"u\t9709161054{n % 60:02}\tq" for n in range(2900))
    quoted = '"' + tabbed + '"'
    (tmp_path / "log.csv").write_text(f"user,query\nu0,{quoted}\nu1,x\n")
    source = find(str(tmp_path / "log.csv"))
    assert (source.shape, source.columns) == ("csv", {"user": "user", "query": "query"})
    head = "".join("u\tq\t970916105432\n" for _ in range(33))
    (tmp_path / "log.tsv").write_text(f"user\tquery\ttime\n{head}v\tx\t2026-01-01\n")
    rows, broken, shape = rows_of(tmp_path / "log.tsv")
    assert shape == "tsv"
    assert ("v", "2026-01-01 00:00:00", "x", None, None) in rows
    for name, content in (("excite", EXCITE), ("sogou", SOGOU)):
        (tmp_path / "plain").write_text(content)
        with pytest.raises(InputError, match=r"give --shape aol\|sogou\|excite if it is one"):
            find(str(tmp_path / "plain"))
        assert profile(str(tmp_path / "plain"))["proposed"]["shape"] == name


def test_headers_between_the_rows_are_no_rows(tmp_path):
    first, *others = AOL.splitlines(keepends=True)
    joined = "\ufeff" + first + others[0] + first + "\ufeff" + first + "".join(others[1:]) + first
    (tmp_path / "all.txt").write_text(joined, encoding="utf-8")
    assert rows_of(tmp_path / "all.txt") == (AOL_ROWS, {}, "aol")
    (tmp_path / "all.txt").write_text(joined.replace("\n", "\r\n"), encoding="utf-8", newline="")
    assert rows_of(tmp_path / "all.txt") == (AOL_ROWS, {}, "aol")


def test_broken_rows_of_aol_are_counted_by_reason(tmp_path):
    (tmp_path / "log.txt").write_bytes(
        AOL.encode()
        + b"9\tonly two\n9\ta\tb\tc\td\te\n9\t\xff\t2006-03-01 00:00:00\t\t\n"
        + b"\tx\t2006-03-01 00:00:00\t\t\n9\t\t2006-03-01 00:00:00\t\t\n9\tx\tnoon\t\t\n"
    )
    rows, broken, _ = rows_of(tmp_path / "log.txt")
    assert rows == [*AOL_ROWS, ("9", None, "x", None, None)]  # without its time
    assert broken == {
        "no query": 1,
        "no user": 1,
        "not UTF-8": 1,
        "too few columns": 1,
        "too many columns": 1,
        "unreadable time": 1,
    }


@given(
    content=st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=60),
    tail=st.binary(max_size=8).filter(lambda b: b"\n" not in b),
)
@example(content="\r8\tforged\t2006-03-01 00:00:00\r", tail=b"\xff")
@settings(max_examples=20, deadline=None)
def test_what_one_user_writes_changes_no_other_users_row_of_aol(tmp_path_factory, content, tail):
    # A8, with tabs, quotes, carriage returns and bytes that are no text at all.
    path = tmp_path_factory.mktemp("a8") / "log.txt"
    before, after = AOL_ROWS[:2], AOL_ROWS[2:]
    lines = AOL.encode().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + b"victim\t" + content.encode() + tail + b"\n" + lines[3])
    rows, _, shape = rows_of(path)
    assert shape == "aol"
    assert [row for row in rows if not row[0].startswith("victim")] == before + after


@pytest.mark.parametrize("encoding", ["gb18030", "utf-8", "utf-16"])
def test_sogou_is_gb18030_unless_a_mark_or_a_flag_says_otherwise(tmp_path, encoding):
    path = tmp_path / "access_log.20080601.decode.filter"
    path.write_bytes(SOGOU.encode(encoding))
    flag = "utf-8" if encoding == "utf-8" else None
    assert find(str(path), SourceOptions(shape="sogou", encoding=flag)).encodings == (encoding,)
    expected = [(u, f"2008-06-01 {time}", *rest) for u, time, *rest in SOGOU_ROWS]
    assert rows_of(path, shape="sogou", encoding=flag) == (expected, {}, "sogou")
    path.rename(tmp_path / "SogouQ.reduced")
    expected = [(u, f"1970-01-01 {time}", *rest) for u, time, *rest in SOGOU_ROWS]
    result = rows_of(tmp_path / "SogouQ.reduced", shape="sogou", encoding=flag)
    assert result == (expected, {}, "sogou")
    proposed = profile(str(tmp_path / "SogouQ.reduced"))["proposed"]
    assert proposed == {"shape": "sogou"} | (
        {} if encoding == "gb18030" else {"encoding": encoding}
    )


def test_sogou_of_2012_has_full_times_six_fields_and_no_brackets(tmp_path):
    path = tmp_path / "sogou.500w.utf8"
    path.write_text(
        "20111230000005\t57375476989eea12\t奇艺高清\t1\t2\thttp://www.example.cn/\n"
        "2011-12-30 00:00:06\tu2\tx\t3\t1\thttp://a.example.cn/\n"
        "20111330000005\tu3\ty\t3\t1\thttp://a.example.cn/\n"
    )
    rows, broken, shape = rows_of(path, shape="sogou", encoding="utf-8")
    assert rows == [
        ("57375476989eea12", "2011-12-30 00:00:05", "奇艺高清", "example.cn", 1),
        ("u2", "2011-12-30 00:00:06", "x", "a.example.cn", 3),
        ("u3", None, "y", "a.example.cn", 3),
    ]
    assert (broken, shape) == ({"unreadable time": 1}, "sogou")
    assert find(str(path), SourceOptions(shape="sogou")).column_names == (
        "time",
        "user",
        "query",
        "rank",
        "order",
        "url",
    )


def test_bytes_that_are_no_gb18030_break_only_their_row(tmp_path):
    first, second, third = SOGOU.encode("gb18030").splitlines(keepends=True)
    bad = b"00:00:09\tu9\t[\xff\x80]\t1 1\twww.example.cn\n"
    short = b"00:00:09\tu9\t[x]\n"
    (tmp_path / "SogouQ.mini").write_bytes(first + bad + second + short + third)
    rows, broken, _ = rows_of(tmp_path / "SogouQ.mini", shape="sogou")
    assert [row[2] for row in rows] == [row[2] for row in SOGOU_ROWS]
    assert broken == {"not decodable": 1, "too few columns": 1}


def test_one_line_does_not_settle_the_encoding(tmp_path):
    lines = [f"00:00:0{i}\tu{i}\t[红楼]\t1 1\twww.example.cn\n".encode("gb18030") for i in range(5)]
    lines[2] = "00:00:02\tu2\t[红楼]\t1 1\twww.example.cn\n".encode()
    (tmp_path / "SogouQ.mini").write_bytes(b"".join(lines))
    rows, _, _ = rows_of(tmp_path / "SogouQ.mini", shape="sogou")
    assert [row[2] for row in rows if row[0] != "u2"] == ["红楼"] * 4


def test_times_of_excite_are_no_unix_times(tmp_path):
    (tmp_path / "excite.log").write_text(EXCITE)
    assert rows_of(tmp_path / "excite.log", shape="excite") == (
        EXCITE_ROWS,
        {"no query": 1},
        "excite",
    )
    (tmp_path / "headed.tsv").write_text("User\tTime\tQuery\n" + EXCITE)
    result = rows_of(tmp_path / "headed.tsv", shape="excite")
    assert result == (EXCITE_ROWS, {"no query": 1}, "excite")
    assert profile(str(tmp_path / "headed.tsv"))["proposed"] == {"shape": "excite"}


def test_a_first_row_of_names_does_not_settle_the_order_of_columns(tmp_path):
    """In a file without a header the first line is somebody's row, whatever the row holds."""
    for first in ("query\tuser\ttime", "time\tquery\tuser", "anonid\tq\tts"):
        (tmp_path / "excite.log").write_text(first + "\n" + EXCITE)
        rows, _, _ = rows_of(tmp_path / "excite.log", shape="excite")
        user, _, query = first.split("\t")
        assert sorted(rows) == sorted([*EXCITE_ROWS, (user, None, query, None, None)])


def test_a_mark_at_the_start_is_no_part_of_the_first_user(tmp_path):
    (tmp_path / "excite.log").write_text("\ufeff" + EXCITE, encoding="utf-8")
    result = rows_of(tmp_path / "excite.log", shape="excite")
    assert result == (EXCITE_ROWS, {"no query": 1}, "excite")


def test_a_first_row_that_cannot_be_decoded_is_one_broken_row(tmp_path):
    (tmp_path / "excite.log").write_bytes(b"\xff\n" + EXCITE.encode())
    result = rows_of(tmp_path / "excite.log", shape="excite")
    assert result == (EXCITE_ROWS, {"no query": 1, "not UTF-8": 1}, "excite")


def test_a_day_that_is_none_is_an_unreadable_time_of_excite(tmp_path):
    (tmp_path / "excite.log").write_text(EXCITE + "X\t970231000000\tx\nY\t990000000000\ty\n")
    broken = rows_of(tmp_path / "excite.log", shape="excite")[1]
    assert broken == {"no query": 1, "unreadable time": 2}


def test_ordinary_unix_times_make_no_excite(tmp_path):
    (tmp_path / "log.tsv").write_text("user\tquery\ttime\na\tx\t1767323045\nb\ty\t1767323045000\n")
    rows, _, shape = rows_of(tmp_path / "log.tsv")
    assert shape == "tsv"
    assert {row[1] for row in rows} == {"2026-01-02 03:04:05"}


def test_a_folder_does_not_mix_shapes(tmp_path):
    (tmp_path / "a.txt").write_text(AOL)
    (tmp_path / "b.tsv").write_text("user\tquery\n")
    with pytest.raises(InputError, match=r"different formats: a.txt \(aol\), b.tsv \(tsv\)"):
        find(str(tmp_path))


def test_other_text_and_binaries_have_no_shape(tmp_path):
    for content in (b"", b"hello\n", b"\0\1\2" * 999, b"PAR1xx", b"\x1f\x8bbroken", b"a\tb\tc\n"):
        (tmp_path / "x.txt").write_bytes(content)
        with pytest.raises(InputError, match="cannot tell the format of x.txt"):
            find(str(tmp_path / "x.txt"))


def test_a_shape_is_restricted_and_keeps_columns_like_any_log(tmp_path):
    (tmp_path / "a.txt").write_text(AOL)
    rows, _, _ = rows_of(tmp_path / "a.txt", since="2006-03-02", where={"Query": "red shoes"})
    assert rows == AOL_ROWS[2:]
    rows, _ = read_rows(tmp_path / "a.txt", keep={"a": "ItemRank", "b": "ClickURL"})
    values = [{name: row[name] for name in "ab"} for row in rows]
    assert {"a": "1", "b": "http://www.shoes.example"} in values
    assert {"a": None, "b": None} in values


def test_profile_says_the_shape(tmp_path):
    (tmp_path / "a.txt").write_text(AOL)
    seen = profile(str(tmp_path / "a.txt"))
    assert (seen["shape"], seen["rows"], seen["users"]) == ("aol", 3, 2)
    assert seen["columns"]["user"] == "AnonID"


def test_a_damaged_file_is_named_without_its_content(tmp_path):
    packed = gzip.compress(AOL.encode() + b"7\tx\t2006-03-01 07:17:12\t\t\n" * 200_000, 1)
    (tmp_path / "log.txt.gz").write_bytes(packed[: len(packed) - 2000])
    with pytest.raises(InputError, match=r"log.txt.gz could not be read to its end"):
        rows_of(tmp_path / "log.txt.gz")

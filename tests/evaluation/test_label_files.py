"""What an evaluation is told from elsewhere: read, or refused with the file and the line."""

import pytest

from murmurlog.errors import InputError
from murmurlog.evaluation.label_files import read_doc_freq, read_planted
from murmurlog.logs.invented.generate import invent, write_labels


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_generate_planted_is_read_back(tmp_path, ending):
    log = invent(rows=2_000, seed=3, like="aol")
    write_labels(log, tmp_path / f"planted.{ending}")
    planted = read_planted(tmp_path / f"planted.{ending}")
    assert planted.num_rows == log.labels.num_rows
    assert sorted(planted["query"].to_pylist()) == sorted(log.labels["query"].to_pylist())


def test_lengths_of_posting_lists_are_read(tmp_path):
    (tmp_path / "df.tsv").write_text("weather\t120\nnew york\t7\n\n")
    assert read_doc_freq(tmp_path / "df.tsv") == {"weather": 120, "new york": 7}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weather 12\n", "line 1"),
        ("weather\t12\nnews\tmany\n", "line 2"),
        ("", "no line"),
        ("weather\t-3\n", "line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, message):
    (tmp_path / "df.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_doc_freq(tmp_path / "df.tsv")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("query,topic\na,b\n")
    (tmp_path / "b.parquet").write_text("no")
    (tmp_path / "c.tsv").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="kind, query, target"):
        read_planted(tmp_path / "a.csv")
    with pytest.raises(InputError, match="neither Parquet nor CSV"):
        read_planted(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="there is no file"):
        read_planted(tmp_path / "d.csv")
    with pytest.raises(InputError, match="not UTF-8"):
        read_doc_freq(tmp_path / "c.tsv")
    with pytest.raises(InputError, match="cannot read"):
        read_doc_freq(tmp_path / "d.tsv")

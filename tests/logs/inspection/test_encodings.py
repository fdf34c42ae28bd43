"""The encoding of a text follows from most of its lines."""

import time

import pytest
from owner_logs import QUERIES

from murmurlog.logs.encodings import ENCODINGS
from murmurlog.logs.inspection.blocks import whole_lines
from murmurlog.logs.inspection.encodings import detect

OTHERS = {
    "cp1250, Czech": "počasí praha,jízdní řády,dětské knížky,řízek recept,můj účet",
    "cp1250, Hungarian": "időjárás budapest,könyv vásárlás,menetrend győr,fűnyíró,húsvéti sütemény",
    "cp1253": "καιρός αθήνα,βιβλία παιδικά,συνταγές για κέικ,δρομολόγια τρένων",
    "cp1254": "hava durumu,ucuz uçak bileti,şarkı sözleri,ağrı dağı,çiçek siparişi,güneş gözlüğü",
    "koi8-r": QUERIES["cp1251"],
    "big5": "台北天氣,手機價格,小說下載,香港地圖,怎麼做菜",
    "euc-jp": QUERIES["shift_jis"],
}


def blocks(text, encoding):
    lines = "".join(f"{n};{query}\n" for n, query in enumerate(text.split(",") * 5))
    return whole_lines(iter([lines.encode(encoding)]))


@pytest.mark.parametrize("name", [*QUERIES, *OTHERS])
def test_texts_of_many_languages_are_recognised(name):
    codec = name.partition(",")[0]
    result = detect(blocks((QUERIES | OTHERS)[name], codec), ENCODINGS)
    assert (result.name, result.others) == (codec, ())


def test_an_encoding_that_is_not_offered_is_not_proposed():
    result = detect(blocks(QUERIES["cp1251"], "cp1251"), ("utf-8", "latin-1"))
    assert result.name in ("utf-8", "latin-1")
    assert not result.sure


def test_the_borders_of_blocks_do_not_matter():
    text = "".join(f"{n};{q}\n" for n, q in enumerate(QUERIES["gb18030"].split(",") * 5))
    data = text.encode("gb18030")
    pieces = (data[at : at + 7] for at in range(0, len(data), 7))
    assert detect(whole_lines(pieces), ENCODINGS).name == "gb18030"


def test_a_long_run_of_plain_letters_is_read_once():
    """`init` looked for a foreign letter from every letter of a run: a minute for these, in quadratic time."""
    started = time.process_time()
    result = detect(iter([b"a" * 30_000 + b" f\xfcr\n"]), ENCODINGS)
    assert result.name != "utf-8"
    assert time.process_time() - started < 5

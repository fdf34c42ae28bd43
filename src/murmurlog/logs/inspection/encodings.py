"""The encoding of text: a byte order mark, else UTF-8 where lines are valid, else the best score.

A codec is scored by the languages that are written in it: the share of the characters beyond ASCII that
belong to the alphabet of one of them. Most lines decide, not one: a line that is not UTF-8 in a file of
UTF-8 is a broken line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from murmurlog.logs.formats import BYTE_ORDER_MARKS
from murmurlog.logs.inspection.blocks import Spread

LINES = 5_000  # that are not UTF-8 and are scored
MOSTLY = 0.75  # what a text of such languages reaches, where rare letters count less
MARGIN = 0.1  # between the scores of two codecs, if one is to be sure


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """An encoding, as --encoding names it."""

    name: str
    why: str
    others: tuple[str, ...] = ()  # that read the text about as well, in another way

    @property
    def sure(self) -> bool:
        """Whether no other encoding is as likely."""
        return not self.others


# The letters beyond ASCII of languages, by the codec that their texts are usually written in.
LATIN: Mapping[str, Sequence[str]] = {
    "cp1252": ("äöüß", "àâçéèêëîïôœùûü", "áéíñóúü", "àèéìòù", "áâãàçéêíóôõú", "åäö", "æøå",
               "éëïóöüè", "áðéíóúýþæö"),
    "cp1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áéíóöőúüű", "áäčďéíĺľňóôŕšťúýž", "čćđšž", "ăâîşţ"),
    "cp1254": ("çğıöşüâîû",),
}  # fmt: skip
# Never in one word with a letter of ASCII. Before the bar are letters that make up most of a text.
OTHER: Mapping[str, Sequence[str]] = {
    "cp1251": ("оеаинтсрвлкмп|бгджзйуфхцчшщъыьэюяё", "оаинітесрвлкмп|бгґдєжзїйуфхцчшщьюя"),
    "koi8-r": ("оеаинтсрвлкмп|бгджзйуфхцчшщъыьэюяё",),
    "cp1253": ("αοιετσνηυρπκλς|βγδζθμξφχψωάέήίόύώϊϋΐΰ",),
}
# Ranges of lead bytes of the usual characters in the codec's own form, and the most usual characters.
EAST: Mapping[str, tuple[str, tuple[tuple[int, int], ...], str]] = {
    "gb18030": ("gb2312", ((0xB0, 0xD7),),
                "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学"
                "天气网图片电影小说下载手机视频北京上海官方怎么什么游戏价格"),
    "big5": ("big5", ((0xA4, 0xC6),),
             "的一是不了在人有我他這中大來上國個到說們為子和你地出道也時年得就那要下以生會自著去之過家學"
             "天氣網圖片電影小說下載手機視頻台北香港官方怎麼什麼遊戲價格"),
    "shift_jis": ("shift_jis", ((0x82, 0x83), (0x88, 0x97)), ""),
    "euc-jp": ("euc-jp", ((0xA4, 0xA5), (0xB0, 0xCF)), ""),
    "euc-kr": ("euc-kr", ((0xB0, 0xC8),),
               "이다는가에의을로하고지기사나도서어한자인일대시스그해아리은정보게장수전라부주있만과"
               "날씨서울영화뉴음악게임가격방법추천다운로드"),
}  # fmt: skip
_WORD = re.compile(r"\w+")
_FOREIGN = re.compile(r"[^\W\d_a-zA-Z]")
_LONG = re.compile(r"[^\x00-\x7f]{4}")
_MIXED = re.compile(r"[a-zA-Z]")
_KANA = re.compile("[\u3040-\u30ff]")


def detect(blocks: Iterable[bytes], candidates: Sequence[str]) -> Encoding:
    """The encoding of a text from its blocks of whole lines; one of the candidates, or UTF-8 or UTF-16."""
    valid, foreign = 0, Spread(LINES)
    for number, block in enumerate(blocks):
        if number == 0:
            for mark, name in BYTE_ORDER_MARKS.items():
                if block.startswith(mark):
                    return Encoding(name=name, why="it begins with a byte order mark")
        if block.isascii():
            continue
        beyond = [line for line in block.split(b"\n") if not line.isascii()]
        if _decode(block, "utf-8") is None:
            odd = [line for line in beyond if _decode(line, "utf-8") is None]
            foreign.extend(odd)
            valid -= len(odd)
        valid += len(beyond)
    if not foreign.seen:
        return Encoding(name="utf-8", why="every line is valid UTF-8")
    if valid > 9 * foreign.seen:
        return Encoding(name="utf-8", why=f"all lines but {foreign.seen:,} are valid UTF-8")
    return _best(foreign.items, candidates)


def _best(lines: Sequence[bytes], candidates: Sequence[str]) -> Encoding:
    scores = {name: score(lines, name) for name in (*LATIN, *OTHER, *EAST)}
    order = sorted(scores, key=lambda name: -scores[name])  # stable: the earlier of equals
    best = order[0]
    text = [_decode(line, best) for line in lines]
    near = [name for name in order[1:] if scores[name] > scores[best] - MARGIN]
    others = [_plain(n, lines) for n in near if [_decode(line, n) for line in lines] != text]
    proposed = _plain(best, lines)
    others = [name for name in others if name in candidates and name != proposed]
    if scores[best] < 0.5:  # no language of any codec: say what there is to choose from
        others = [name for name in candidates if name not in (proposed, "utf-8", "utf-16")]
    if proposed not in candidates:
        others.append(proposed)
        proposed = next((name for name in others if name in candidates), "utf-8")
    why = (
        f"it is not UTF-8; {min(1.0, scores[best]):.0%} of its letters beyond ASCII fit {proposed}"
    )
    return Encoding(name=proposed, why=why, others=tuple(dict.fromkeys(others)))


def _plain(name: str, lines: Sequence[bytes]) -> str:
    """latin-1 for cp1252 if no byte tells them apart."""
    apart = bytes(range(0x80, 0xA0))
    if name == "cp1252" and not any(line.translate(None, apart) != line for line in lines):
        return "latin-1"
    return name


def score(lines: Sequence[bytes], codec: str) -> float:
    """How well lines fit the languages of a codec: from 0 to about 1."""
    texts = [text for line in lines if (text := _decode(line, codec)) is not None]
    decoded = len(texts) / len(lines)
    if not texts:
        return 0.0
    if codec in EAST:
        return decoded * _share_of_usual("".join(texts), codec)
    words = [word for text in texts for word in _WORD.findall(text) if _FOREIGN.search(word)]
    odd = sum(not c.isalpha() for text in texts for c in text if not c.isascii())
    if codec in OTHER:
        fitting = [word for word in words if not _MIXED.search(word)]
    else:
        fitting = [word for word in words if not _LONG.search(word)]
    total = odd + sum(not c.isascii() for word in words for c in word)
    letters = "".join(c for word in fitting for c in word if not c.isascii())
    if not total:
        return 0.0
    alphabets = LATIN.get(codec) or OTHER[codec]
    if codec in LATIN:  # texts may be of several languages
        every = 0.9 * _weight(letters, "".join(alphabets))
        return decoded * max(every, *(_weight(letters, alphabet) for alphabet in alphabets)) / total
    fit = max(_weight(letters, alphabet) for alphabet in alphabets) / total
    return decoded * fit / MOSTLY


def _weight(letters: str, alphabet: str) -> float:
    """How many letters are of an alphabet; rare ones and capitals count less."""
    usual, _, rare = alphabet.partition("|")
    less = {*rare, *alphabet.upper()}
    return sum(1.0 if c in usual else 0.4 if c in less else 0.0 for c in letters)


def _share_of_usual(text: str, codec: str) -> float:
    """The share of characters that are usual in the codec's language; Japanese needs kana."""
    name, ranges, usual = EAST[codec]
    characters = [c for c in text if not c.isascii()]
    kana = len(_KANA.findall(text))
    if not characters or (not usual and kana < 0.2 * len(characters)):
        return 0.0
    total = 0.0
    for c in characters:
        if usual and _KANA.match(c):
            continue
        try:
            lead = c.encode(name)[0]
        except UnicodeEncodeError:
            continue
        if any(low <= lead <= high for low, high in ranges):
            total += 1.0 if c in usual or not usual else 0.6
    # A third of a text are the most usual characters: that is as good as it gets.
    most = 1.0 if not usual else 0.73
    return min(1.0, total / len(characters) / most)


def _decode(line: bytes, codec: str) -> str | None:
    try:
        return line.decode(codec)
    except UnicodeDecodeError:
        return None

"""The texts of a generated log, as functions of the numbers of queries and sites. Draws nothing.

Every text is a fixed function of a number, so two logs of one population share their texts, whatever
their seed and size. A query's number packs its kind (the high bits) and a number within the kind.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
Facts = npt.NDArray[np.bool_]

HEAD, WORDS, FEARS, _topics = (
    part.splitlines()
    for part in (files("murmurlog.logs.invented") / "words.txt")
    .read_text("utf-8")
    .split("\n", 1)[1]
    .split("\n\n")
)
TOPICS = {name: words.split() for name, words in (line.split(": ") for line in _topics)}

# Kinds of a query's number. SITE: the name of a host; OWN: a query of one user only.
SHARED, OWN, SPECIAL, WRONG, FEAR, SITE, PERSONAL, OWN_SPECIAL = range(8)
KIND_BITS = 42
NUMBERS = 1 << KIND_BITS
SPECIALS, WRONGS, FORMS = 6, 3, 3  # variants of a base query, and ways to ask for a site
SIBLINGS = 8  # neighbouring numbers of shared and own queries are of one subject
PAGE = 10  # results on a page

VOCABULARY, WORD_POWER = 1_000_000, 4.0
TOPIC_WORD = 0.6  # the share of longer queries that begin with a word of their topic
LENGTHS = (0.05, 0.35, 0.72)  # at most 1, 2, 3 words; the rest has 4
HOSTS, HOST_POWER = 110_000, 7.0  # a topic
ON_TOPIC = 0.9
LASTS = (30.0, 20.0)  # days until a query has another result at its first place; at any other
SITES = 50_000  # hosts that users search by name
LABELLED_HOSTS = 24_000  # hosts whose topic is labelled; low numbers are clicked most
VARIED = 5_000  # the most asked shared queries have misspellings, and labels of more special forms
AMBIGUOUS = (0.7, 0.9)  # the share of queries with one intent, and with at most two
TOPLEVEL = (".com", ".com", ".com", ".org", ".net", ".info")
PATTERNS = ("email", "phone", "card", "us-ssn", "address")  # as the screen calls them

_SYLLABLES = [
    o + v + c for o in "bdfgklmnprstvz" for v in "aeiou" for c in ("", "n", "r", "s", "l")
]
_PAIRS = len(_SYLLABLES) ** 2
_REAL = WORDS + [word for words in TOPICS.values() for word in words]
_TOPIC_WORDS = len(next(iter(TOPICS.values())))
_LIKED = [
    query for query in HEAD if not query.startswith("fear of")
]  # fears are a kind of their own


def scramble(number: Unsigned, salt: int) -> Unsigned:
    """A fixed scramble of integers, so that a text depends on its number only."""
    x = number + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform(number: Ints, salt: int) -> npt.NDArray[np.float64]:
    """A fixed fraction in [0, 1) for each number."""
    return np.asarray(
        (scramble(number.astype(np.uint64), salt) >> np.uint64(11)) * 2.0**-53, np.float64
    )


def pick(number: Ints, salt: int, size: int, power: float) -> Ints:
    """Indices below `size`, small ones more often: index x in proportion to x^(1/power - 1)."""
    chosen = (uniform(number, salt) ** power * size).astype(np.int64)
    return np.asarray(np.minimum(chosen, size - 1))


def pack(kind: int, number: Ints) -> Ints:
    """The query numbers of this kind."""
    return np.asarray(number + (kind << KIND_BITS))


def kind_of(query: Ints) -> Ints:
    """The kind of each query."""
    return np.asarray(query >> KIND_BITS)


def root(query: Ints) -> Ints:
    """The base query of a variant; any other query is its own base."""
    kind, number = kind_of(query), query & (NUMBERS - 1)
    base = np.where(kind == SPECIAL, number // SPECIALS, query)
    base = np.where(kind == OWN_SPECIAL, pack(OWN, number // SPECIALS), base)
    return np.asarray(np.where(kind == WRONG, number // WRONGS, base))


def topic_of(query: Ints) -> Ints:
    """The topic of each query, as a place in TOPICS; variants and siblings have the same."""
    subject = root(query) // SIBLINGS
    # Topics of shared queries take turns, so that each has queries of every popularity.
    other = (uniform(subject, 11) * len(TOPICS)).astype(np.int64)
    return np.asarray(np.where(kind_of(root(query)) == SHARED, subject % len(TOPICS), other))


def intents(query: Ints) -> Ints:
    """How many intents a query has, 1 to 3; one, if it is the name of a site."""
    count = 1 + np.searchsorted(AMBIGUOUS, uniform(root(query), 19), side="right")
    return np.where(kind_of(query) == SITE, 1, count)


def _owner(query: Ints, rank: Ints) -> Ints:
    """The query whose results stand at this rank: the first two of a variant are those of its root."""
    return np.where(rank <= 2, root(query), query)


def _intent(bits: Unsigned, intents: Ints) -> Ints:
    """The intent that a result serves, of that many: three quarters, or a half, serve the first."""
    quarter = (bits >> np.uint64(4)).astype(np.int64) & 3
    return np.asarray(np.maximum(quarter - (4 - intents), 0))


def result(query: Ints, rank: Ints) -> tuple[npt.NDArray[np.float64], Ints]:
    """The attractiveness of the result at this rank, 0.4 to 1, and the intent that it serves."""
    bits = _bits(query, rank)
    attractiveness = 0.4 + 0.04 * (bits & np.uint64(15)).astype(np.float64)
    return attractiveness, _intent(bits, intents(query))


def _bits(query: Ints, rank: Ints) -> Unsigned:
    """Six fixed random bits of a result."""
    # Ranks go to 100, and 7 bits leave a packed number below 2^63.
    place = (_owner(query, rank) << 7) + rank
    return scramble(place.astype(np.uint64), 12) >> np.uint64(58)


def clicked_host(query: Ints, rank: Ints, day: Ints) -> Ints:
    """The host at this place of the query's results on a day; a host's topic is its number modulo TOPICS.

    A result has the topic of the intent that it serves. The first of a site's name is that site. Every other
    place has a new host now and then, each place on days of its own.
    """
    place = (_owner(query, rank) << 7) + rank
    version = day / np.where(rank == 1, *LASTS) + uniform(place, 22)
    place += version.astype(np.int64) << 52  # above the bits of query and rank
    intent = _intent(_bits(query, rank), intents(query))
    stray = (uniform(place, 13) >= ON_TOPIC) | (intent > 0)
    among = np.where(intent > 0, (root(query) << 2) + intent, place)
    topic = np.where(stray, (uniform(among, 21) * len(TOPICS)).astype(np.int64), topic_of(query))
    host = pick(place, 14, HOSTS, HOST_POWER) * len(TOPICS) + topic
    is_own_site = (kind_of(query) == SITE) & (rank == 1)
    return np.asarray(np.where(is_own_site, (query & (NUMBERS - 1)) // FORMS, host))


@cache
def vocabulary() -> pa.Array:
    """English words first, then words of two syllables, then of three; all different."""
    number = np.arange(VOCABULARY - len(_REAL))
    return pa.concat_arrays([pa.array(_REAL), _make_words(number)])


def _make_words(number: Ints) -> pa.Array:
    """A pronounceable word for each number, different for different ones below 43 million."""
    table, base = pa.array(_SYLLABLES), len(_SYLLABLES)
    # Multiplying by a number without common factors deals neighbours far apart.
    short = number * 67_867 % _PAIRS
    long = number * 15_485_863 % (_PAIRS * base)
    code = np.where(number < _PAIRS, short, long)
    last = pa.array(long // _PAIRS, mask=number < _PAIRS)
    parts = [table.take(pa.array(x)) for x in (code % base, code // base % base)]
    return _join([*parts, table.take(last)], "")


def _join(parts: list[pa.Array], between: str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, between, null_handling="skip")


def hosts(number: Ints) -> pa.Array:
    """The name of each host, such as `banaro.com`."""
    ends = pa.array(TOPLEVEL).take(pa.array((uniform(number, 15) * len(TOPLEVEL)).astype(np.int64)))
    return _join([_make_words(number + _PAIRS // 2), ends], "")


def urls(number: Ints) -> pa.Array:
    """The address of each host."""
    return _join([pa.scalar("http://www."), hosts(number)], "")


def texts(query: Ints) -> pa.Array:
    """The text of each query; slow, so call it with distinct queries."""
    kind = kind_of(query)
    phrases = _phrases(root(query))
    for variant, spell in SPELLED.items():
        mask = kind == variant
        if mask.any():
            number = query[mask] & (NUMBERS - 1)
            spelled = spell(number, phrases.filter(pa.array(mask)))
            phrases = pc.replace_with_mask(phrases, pa.array(mask), spelled)
    return phrases


def _phrases(query: Ints) -> pa.Array:
    """One to four words for each query; the most asked shared queries are fixed phrases."""
    length = 1 + np.searchsorted(LENGTHS, uniform(query, 9), side="right")
    length = np.where(query < 200, np.minimum(length, 2), length)
    words = []
    for place in range(4):
        word = pick(query, 20 + place, VOCABULARY, WORD_POWER)
        if place == 0:
            word = np.where(
                (length > 1) & (uniform(query // SIBLINGS, 10) < TOPIC_WORD), _topical(query), word
            )
        chosen = pa.array(word, mask=place >= length)
        words.append(vocabulary().take(chosen))
    phrases = _join(words, " ")
    head = query < len(_LIKED)
    fixed = pa.array(_LIKED).take(pa.array(query[head]))
    return pc.replace_with_mask(phrases, pa.array(head), fixed)


def _topical(query: Ints) -> Ints:
    """For each query the vocabulary's place of a word of its topic."""
    among = pick(query // SIBLINGS, 16, _TOPIC_WORDS, 1.5)
    return np.asarray(len(WORDS) + topic_of(query) * _TOPIC_WORDS + among)


def _specials(number: Ints, phrase: pa.Array) -> pa.Array:
    """The phrases with one more word."""
    more = vocabulary().take(pa.array(pick(number, 17, 20_000, 1.5)))
    return _join([phrase, more], " ")


def _wrongs(number: Ints, phrase: pa.Array) -> pa.Array:
    """The phrases with one typing error each."""
    where = uniform(number, 18).tolist()
    slips = zip(phrase.to_pylist(), (number % WRONGS).tolist(), where, strict=True)
    return pa.array([_misspell(text, how, at) for text, how, at in slips], pa.string())


def _misspell(text: str, how: int, where: float) -> str:
    """The text with a letter of its longest word left out, doubled or moved."""
    word = max(text.split(), key=len)
    at = 1 + int(where * (len(word) - 2)) if len(word) > 2 else 0
    before, letter, after = word[:at], word[at], word[at + 1 :]
    moved = after[:1] + letter + after[1:]
    slips = (before + after, before + letter + letter + after, before + moved)
    # A moved letter may give the same word; a doubled one never does.
    wrong = slips[how] if slips[how] not in (word, "") else slips[1]
    return text.replace(word, wrong, 1)


def _fears(number: Ints, _: pa.Array) -> pa.Array:
    return _join([pa.scalar("fear of"), pa.array(FEARS).take(pa.array(number))], " ")


def _sites(number: Ints, _: pa.Array) -> pa.Array:
    """The name of a site: its host, with www, or without the ending."""
    host, form = hosts(number // FORMS), number % FORMS
    bare = pc.replace_substring_regex(host, r"\.[a-z]+$", "")
    long = _join([pa.scalar("www."), host], "")
    return pc.choose(pa.array(form), bare, host, long)


def _personal(number: Ints, _: pa.Array) -> pa.Array:
    """Strings that look like personal data, but are nobody's: see `pattern_of`."""
    first, second = (
        vocabulary().take(pa.array(pick(number, salt, 100_000, 1.0))).to_pylist()
        for salt in (30, 31)
    )
    digits = (scramble(number.astype(np.uint64), 32) % np.uint64(10**16)).tolist()
    rows = zip(number.tolist(), first, second, digits, strict=True)
    return pa.array([_string(n % len(PATTERNS), *rest) for n, *rest in rows], pa.string())


def pattern_of(query: Ints) -> list[str]:
    """The pattern of PATTERNS that each personal query follows."""
    return [PATTERNS[n % len(PATTERNS)] for n in (query & (NUMBERS - 1)).tolist()]


def _string(pattern: int, first: str, second: str, digits: int) -> str:
    """One personal string, of ranges that nobody can have."""
    text = f"{digits:016d}"
    if pattern == 0:
        return f"{first}.{second}@example.{('com', 'org', 'net')[digits % 3]}"
    if pattern == 1:  # 555-0100 to 555-0199 are kept for fiction
        return f"{2 + digits % 8}{text[:2]}-555-01{text[2:4]}"
    if pattern == 2:  # payment services test with numbers from 4000 00
        number = "40000000" + text[:7]
        return " ".join((number + _luhn(number))[i : i + 4] for i in range(0, 16, 4))
    if pattern == 3:  # neither social security nor taxpayer numbers of the US begin so
        return f"9{text[:2]}-{1 + digits % 49:02d}-{1 + digits % 9_999:04d}"
    return f"{1 + digits % 999} {first} {('street', 'avenue', 'road')[digits % 3]} {second}"


def _luhn(number: str) -> str:
    """The check digit to put behind the number."""
    doubled = [2 * int(d) if i % 2 == 0 else int(d) for i, d in enumerate(reversed(number))]
    return str(-sum(d - 9 if d > 9 else d for d in doubled) % 10)


SPELLED = {
    SPECIAL: _specials,
    OWN_SPECIAL: _specials,
    WRONG: _wrongs,
    FEAR: _fears,
    SITE: _sites,
    PERSONAL: _personal,
}


def labels(query: Ints, spelled: pa.Array, *, host: Ints, specialised: Ints) -> pa.Table:
    """The planted labels for the distinct queries and hosts of a log: kind, query, target.

    `specialised` are the more special queries that someone asked directly after their root.
    Only if both occur in the log: a misspelling whose correct spelling nobody asks is left out.
    """

    def of_kind(kind: int) -> tuple[Ints, pa.Array]:
        mask = kind_of(query) == kind
        return query[mask], spelled.filter(pa.array(mask))

    shared = query[query < NUMBERS]
    popular = host[host < LABELLED_HOSTS]
    topic = pa.array(list(TOPICS)).take(pa.array(popular % len(TOPICS)))
    fear, fears = of_kind(FEAR)
    tables = [
        _label("fear", fears, pa.array(FEARS).take(pa.array(fear & (NUMBERS - 1)))),
        _label("topic", _join([pa.scalar("www."), hosts(popular)], ""), topic),
    ]
    for kind, name in ((WRONG, "misspelling"), (SPECIAL, "reformulation")):
        variant, spelling = of_kind(kind)
        mask = np.isin(root(variant), shared[shared < VARIED])
        if kind == SPECIAL:
            mask &= np.isin(variant, specialised)
        ends = [spelling.filter(pa.array(mask)), texts(root(variant[mask]))]
        tables.append(_label(name, *(ends if kind == WRONG else reversed(ends))))
    personal, strings = of_kind(PERSONAL)
    tables.append(_label("personal", strings, pa.array(pattern_of(personal), pa.string())))
    site_queries, names = of_kind(SITE)
    site = (site_queries & (NUMBERS - 1)) // FORMS
    mask = np.isin(site, host[host < SITES])
    tables.append(_label("navigational", names.filter(pa.array(mask)), urls(site[mask])))
    return pa.concat_tables(tables)


def _label(kind: str, query: pa.Array, target: pa.Array) -> pa.Table:
    """Labels of one kind, each once: two numbers may have one text."""
    table = pa.table({"query": query, "target": target})
    # One thread: more of them give another order each time.
    table = table.group_by(["query", "target"], use_threads=False).aggregate([])
    return table.add_column(0, "kind", pa.array([kind] * len(table), pa.string()))


def decode(codes: Ints, values: Sequence[str | None]) -> pa.ChunkedArray:
    """The value of each code."""
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values))]
    ).cast(pa.string())


def _plain_pick(number: Unsigned, salt: int, size: int) -> Ints:
    """Indices below `size`, small ones more often (a power law with exponent 2/3)."""
    uniform = scramble(number, salt).astype(np.float64) / 2.0**64
    return np.minimum((uniform**3 * size).astype(np.int64), size - 1)


def plain_texts(query: Ints, words: npt.NDArray[np.str_]) -> pa.ChunkedArray:
    """The text of each query of a plain log."""
    distinct, codes = np.unique(query, return_inverse=True)
    number = distinct.astype(np.uint64)
    length = 1 + (distinct >= 200) + (scramble(number, 9) % np.uint64(3)).astype(np.int64)
    columns = [words[_plain_pick(number, salt, len(words))].tolist() for salt in range(4)]
    texts = [
        HEAD[q] if q < len(HEAD) else " ".join(row[:n])
        for q, n, row in zip(
            distinct.tolist(), length.tolist(), zip(*columns, strict=True), strict=True
        )
    ]
    return decode(codes, texts)


def invent_urls(
    query: Ints, rank: Ints, clicked: Facts, words: npt.NDArray[np.str_]
) -> pa.ChunkedArray:
    """The url of each click of a plain log, nothing where there is none."""
    target = np.where(clicked, query * 16 + rank, -1)
    distinct, codes = np.unique(target, return_inverse=True)
    number = distinct.astype(np.uint64)
    site = words[_plain_pick(number, 5, len(words))].tolist()
    page = words[_plain_pick(number, 6, len(words))].tolist()
    end = (scramble(number, 7) % np.uint64(len(TOPLEVEL))).astype(np.int64).tolist()
    urls: list[str | None] = [
        f"http://www.{s}{TOPLEVEL[e]}" + ("" if t % 16 == 1 else f"/{p}")
        for t, s, p, e in zip(distinct.tolist(), site, page, end, strict=True)
    ]
    if distinct[0] < 0:
        urls[0] = None
    return decode(codes, urls)

"""Builds a public pool of queries from public text and a dictionary (SafeLog, section 3.3.2).

Candidates are those of the thesis, n-grams of 2 to 5 words that end in a noun, and, to reach any
size, single nouns and two-word combinations of the dictionary. Nothing is random: the same text gives
the same pool. A pool built from the owner's log would be private data (A4), so a file that looks like
a search log is refused.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush, merge
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import normalise
from murmurlog.counting.public_sets.sets import lines_of
from murmurlog.errors import InputError, MurmurlogError, Refused, UsageError
from murmurlog.logs.columns import NAMES
from murmurlog.logs.formats import first_lines
from murmurlog.logs.source import COMPRESSIONS, FORMATS, compression_of, find, guess

LONGEST = 5  # words of an n-gram
MOST_COUNTED = 10_000_000  # distinct n-grams in memory; beyond that the rarest are dropped
MOST_SIZE = 200_000_000
LINES_A_WRITE = 100_000
# The dictionary lists these as nouns (Oregon, Indiana, the letter A); in texts they rarely are.
_SMALL = """
a about above after all am an and any are as at be because been before being below between both
but by can could did do does doing down during each few for from further had has have having he
her here hers him his how i if in into is it its just like may me might more most must my no nor
not now of off on once only or other our out over own same shall she should so some such than
that the their them then there these they this those though through to too under until up upon
us very was we were what when where which while who whom whose why will with within without
would yet you your
"""
FUNCTION = frozenset(_SMALL.split())
_SEGMENTS = re.compile(r"[^\w'\u2019 .\-]+|\.(?=\s|$)|\s-+\s")
_WORDS = re.compile(r"\w+(?:['\u2019.\-]\w+)*")
_CELLS = re.compile(r"[\t,;|]")


LOOKS_LIKE_LOG = (
    "{name} looks like a search log. A pool made of a log is private data: somebody asked every query in "
    "it, so a release on it protects nobody (A4). Build the pool from public text."
)
PUBLISHABLE = (10, 20, 50)  # users of a query that a release may publish


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How much of a log a pool holds."""

    distinct: float  # the share of its distinct queries
    volume: float  # the share of its rows
    publishable: dict[int, float | None]  # of queries of at least so many users; None without any


@cache
def dictionary() -> tuple[frozenset[str], frozenset[str]]:
    """The nouns and the adjectives of WordNet that are single words."""
    text = Path(__file__).with_name("wordnet.txt").read_text("utf-8")
    _, nouns, adjectives = text.split("\n\n")
    return frozenset(nouns.split()), frozenset(adjectives.split())


def is_noun(word: str) -> bool:
    """Whether the dictionary has the word as a noun, or what it is the regular plural of."""
    nouns, _ = dictionary()
    if word in nouns:
        return word not in FUNCTION
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return False
    return (
        word[:-1] in nouns
        or (word.endswith("es") and word[:-2] in nouns)
        or (word.endswith("ies") and word[:-3] + "y" in nouns)
    )


def build(texts: Sequence[Path], *, size: int) -> pa.Array:
    """`size` distinct queries, all normalised: by frequency in the texts, then by text.

    First the n-grams and nouns that the texts hold, then the other nouns of the dictionary, then
    "noun noun" and "adjective noun" by the product of their words' frequencies.
    """
    check_size(size)
    for path in texts:
        check_text(path)
    grams, words = _count_grams(texts)
    if not words:
        raise InputError("there is no word in " + ", ".join(path.name for path in texts))
    nouns, adjectives = (words_of - FUNCTION for words_of in dictionary())
    found = sorted(grams, key=lambda gram: (-grams[gram], gram))[:size]
    more = sorted(nouns.difference(grams))[: size - len(found)]
    missing = size - len(found) - len(more)
    if missing > 0:
        left = {word: words[word] + 1 for word in nouns | adjectives}
        right = {word: words[word] + 1 for word in nouns}
        pairs = (pair for pair in _combined(left, right) if pair not in grams)
        more += islice(pairs, missing)
    return pa.array([*found, *more], pa.string())


def check_size(size: int) -> None:
    """Raises unless a pool can have that many queries."""
    if not 1 <= size <= MOST_SIZE:
        raise UsageError(f"--size must lie between 1 and {MOST_SIZE}, not {size}")


def check_public(path: Path) -> None:
    """Raises unless the file is there; a file with the columns of a search log is refused."""
    if not path.is_file():
        raise InputError(f"there is no file of text {str(path)!r}")
    if _has_log_columns(path, first_lines(path, compression_of(path)) or ()):
        raise Refused(LOOKS_LIKE_LOG.format(name=path.name))


def check_text(path: Path) -> None:
    """Raises unless the file is there and is running text; a search log is refused."""
    check_public(path)
    lines = first_lines(path, compression_of(path))
    if _is_table(path, lines or ()):
        raise Refused(LOOKS_LIKE_LOG.format(name=path.name))
    suffixes = [suffix.lstrip(".").lower() for suffix in path.suffixes]
    kind = next((s for s in reversed(suffixes) if s not in COMPRESSIONS), "")
    if lines is None or kind in FORMATS:
        raise InputError(f"{path.name} is not plain text: a pool is built from running text")


def _has_log_columns(path: Path, lines: Sequence[str]) -> bool:
    """Whether it has a user and a query column."""
    with suppress(MurmurlogError):
        find(str(path))
        return True
    names = {name.strip().lower() for name in _CELLS.split(lines[0])} if lines else set()
    return bool(names & set(NAMES["user"]) and names & set(NAMES["query"]))


def _is_table(path: Path, lines: Sequence[str]) -> bool:
    """Whether it looks like a well-known log or another table, whatever its header."""
    if lines and guess(str(path)):
        return True
    return len(lines) > 1 and 2 * sum("\t" in line for line in lines) > len(lines)


def _count_grams(texts: Sequence[Path]) -> tuple[Counter[str], Counter[str]]:
    """How often each n-gram that ends in a noun comes, and each word."""
    grams: Counter[str] = Counter()
    words: Counter[str] = Counter()
    noun = cache(is_noun)
    for path in texts:
        for lines in lines_of(path):
            for line in lines.to_pylist():
                for run in split_runs(line):
                    words.update(run)
                    grams.update(_grams(run, noun))
            least = 1
            while len(grams) > MOST_COUNTED // (1 if least == 1 else 2):
                # Dropped n-grams restart from 0, so rare ones may be undercounted in a very large text.
                grams = Counter({gram: n for gram, n in grams.items() if n > least})
                least += 1
    return grams, words


def split_runs(line: str) -> Iterator[list[str]]:
    """The words of a line between marks that end a phrase."""
    clean = normalise(line)
    if clean is None:
        return
    for part in _SEGMENTS.split(clean):
        if run := _WORDS.findall(part):
            yield run


def _grams(run: list[str], noun: Callable[[str], bool]) -> Iterator[str]:
    """The n-grams of 1 to 5 words that end in a noun."""
    for end, word in enumerate(run):
        if noun(word):
            for start in range(max(0, end + 1 - LONGEST), end + 1):
                yield " ".join(run[start : end + 1])


def _combined(left: dict[str, int], right: dict[str, int]) -> Iterator[str]:
    """Pairs "left right" of different words by falling product of their weights, then by text."""
    heads, tails = _classes(left), _classes(right)
    heap = [(-heads[0][0] * tails[0][0], 0, 0)]
    while heap:
        product, level = heap[0][0], []
        while heap and heap[0][0] == product:  # pairs pushed meanwhile are lighter
            _, i, j = heappop(heap)
            level.append(_pairs(heads[i][1], tails[j][1]))
            if j + 1 < len(tails):
                heappush(heap, (-heads[i][0] * tails[j + 1][0], i, j + 1))
            if j == 0 and i + 1 < len(heads):
                heappush(heap, (-heads[i + 1][0] * tails[0][0], i + 1, 0))
        yield from merge(*level)


def _classes(weights: dict[str, int]) -> list[tuple[int, list[str]]]:
    """The words of each weight in order, the heaviest first."""
    classes: dict[int, list[str]] = {}
    for word in sorted(weights):
        classes.setdefault(weights[word], []).append(word)
    return sorted(classes.items(), reverse=True)


def _pairs(left: list[str], right: list[str]) -> Iterator[str]:
    # A space comes before any letter, so this is the order of the joined texts.
    return (f"{first} {second}" for first in left for second in right if first != second)


def coverage(pool: pa.Array, rows: pa.Table) -> Coverage:
    """The shares that the pool holds of a log's rows (user, query) and of its queries."""
    asked = rows.group_by("query").aggregate([("user", "count"), ("user", "count_distinct")])
    held = pc.is_in(asked["query"], value_set=pool).combine_chunks()
    inside = asked.filter(held)
    many = {least: _count(asked, least) for least in PUBLISHABLE}
    return Coverage(
        distinct=inside.num_rows / max(1, asked.num_rows),
        volume=(pc.sum(inside["user_count"]).as_py() or 0) / max(1, rows.num_rows),
        publishable={n: _count(inside, n) / some if some else None for n, some in many.items()},
    )


def _count(asked: pa.Table, least: int) -> int:
    """How many queries have at least so many users."""
    return int(pc.sum(pc.greater_equal(asked["user_count_distinct"], least)).as_py() or 0)


def check_out(out: Path) -> None:
    """Raises unless a pool can be written there."""
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out.name} exists: choose another --out, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )


def write(pool: pa.Array, out: Path) -> None:
    """Writes a query a line; compressed if the name ends in .gz or .zst."""
    check_out(out)
    compression = COMPRESSIONS.get(out.suffix.lstrip(".").lower())
    part = out.with_name(f".{out.name}.part")
    with pa.output_stream(part, compression=compression) as stream:
        for start in range(0, len(pool), LINES_A_WRITE):
            lines = pool.slice(start, LINES_A_WRITE).to_pylist()
            stream.write(("\n".join(lines) + "\n").encode())
    part.rename(out)

"""Substitutions of queries (ZEALOUS 7.3, after Jones and others 2006).

Queries are segmented into phrases by mutual information. A substitute is a query that users asked
next, or the query with one phrase replaced as users replaced it in this or other queries. Only pairs
that occur more often than by chance count, by the log-likelihood ratio.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import chdtri, xlogy

from murmurlog.bundle.models.click_graph import places, sum_by_place
from murmurlog.bundle.models.derived_tables import Floats, Ints, weights
from murmurlog.bundle.schema import count_of

JOINED = 3.0  # mutual information of adjacent words of one phrase: 20 times as often as by chance
RISK = 0.05  # that one of all pairs passes the test by chance
FEWEST = 2.0  # a single occurrence is no evidence
PORTION = 1 << 18  # pairs of queries processed at a time


@dataclass(frozen=True, kw_only=True)
class Phrases:
    """Which adjacent words belong together."""

    words: pa.Array
    joined: Ints  # numbers of two words as one: first * len(words) + second; sorted

    def cut(self, texts: pa.Array) -> tuple[pa.Array, Ints]:
        """The phrases of all texts one after another, and where each text's begin and the last ends."""
        words, ends = _words(texts)
        code = places(words, self.words)
        begins = np.zeros(len(code) + 1, bool)
        begins[ends] = True
        both = np.zeros(len(code), bool)  # whether a word and the word before it are published
        both[1:] = (code[1:] >= 0) & (code[:-1] >= 0)
        key = np.where(both, np.roll(code, 1) * len(self.words) + code, -1)
        begins[:-1] |= ~_among(key, self.joined)
        start = np.flatnonzero(begins)  # of each phrase, by word; the end of the last one too
        lists = pa.ListArray.from_arrays(pa.array(start, pa.int32()), words)
        return pc.binary_join(lists, " "), np.searchsorted(start, ends)


def learn_phrases(queries: pa.Table) -> Phrases:
    """Adjacent words with a pointwise mutual information over `JOINED`, of at least `FEWEST` users.

    ln(p(a b) / (p(a) p(b))), each a share of all words or of all adjacent pairs, by counts.
    """
    words, ends = _words(queries["query"].combine_chunks())
    coded = words.dictionary_encode()
    code, size = coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)
    weight = np.repeat(_evidence(queries), np.diff(ends))
    words_weight = sum_by_place(code, weight, size)
    inner = np.ones(len(code), bool)
    inner[ends[:-1][np.diff(ends) > 0]] = False  # a first word follows nothing
    at = np.flatnonzero(inner)
    keys, pair = np.unique(code[at - 1] * size + code[at], return_inverse=True)
    pairs_weight = sum_by_place(pair, weight[at], len(keys))
    frequent = pairs_weight >= FEWEST
    keys, pairs_weight = keys[frequent], pairs_weight[frequent]
    share = pairs_weight / max(weight[at].sum(), 1.0)
    chance = words_weight[keys // size] * words_weight[keys % size]
    chance /= max(words_weight.sum(), 1.0) ** 2
    information = np.log(share / chance)
    return Phrases(words=coded.dictionary, joined=keys[information > JOINED])


@dataclass(frozen=True, kw_only=True)
class Followers:
    """For each number, those that follow it more often than by chance; the most significant first."""

    start: Ints  # of the followers of each number, and the end of the last
    follower: Ints
    ratio: Floats

    def of(self, number: int, most: int) -> slice:
        """The positions of the first followers of a number."""
        first, last = int(self.start[number]), int(self.start[number + 1])
        return slice(first, min(last, first + most))

    def has(self, numbers: Ints) -> npt.NDArray[np.bool_]:
        """Which of the numbers have followers; -1 has none."""
        return np.append(np.diff(self.start) > 0, False)[numbers]


def followers(
    first: Ints, second: Ints, weight: Floats, *, texts: pa.Array, query_total: float
) -> Followers:
    """The pairs of numbers of texts, each pair once, that pass the test of independence.

    `query_total` is the count of all queries together: the few published pairs alone would not give
    the frequencies expected by chance. The level of each test has a Bonferroni correction for the
    number of pairs. Equal ratios are ordered by text.
    """
    size = len(texts)
    significant = chdtri(1, RISK / max(1, len(first)))  # chi-squared, one degree of freedom
    row, column = (sum_by_place(side, weight, size) for side in (first, second))
    total = max(query_total, float(weight.sum()))
    frequent = np.flatnonzero(weight >= FEWEST)
    first, second, weight = first[frequent], second[frequent], weight[frequent]
    ratio = likelihood_ratio(weight, row[first], column[second], total)
    passed = (ratio > significant) & (weight * total > row[first] * column[second])
    first, second, ratio = first[passed], second[passed], ratio[passed]
    different, place = np.unique(second, return_inverse=True)
    rank = np.empty(len(different), np.int64)
    rank[pc.sort_indices(texts.take(pa.array(different))).to_numpy()] = np.arange(len(different))
    order = np.lexsort((rank[place], -ratio, first))
    start = np.searchsorted(first[order], np.arange(size + 1))
    return Followers(start=start, follower=second[order], ratio=ratio[order])


def likelihood_ratio(both: Floats, first: Floats, second: Floats, total: float) -> Floats:
    """-2 ln lambda for "the second follows the first as often as it follows anything".

    From the contingency table: both, the first alone, the second alone, neither.
    """
    cells = (both, first - both, second - both, total - first - second + both)
    margins = (first, total - first, second, total - second)
    # Rounding must not make an empty cell negative.
    inside = sum(xlogy(np.maximum(cell, 0.0), np.maximum(cell, 0.0)) for cell in cells)
    outside = sum(xlogy(margin, margin) for margin in margins)
    ratio: Floats = 2 * (inside - outside + xlogy(total, total))
    return ratio


class Substitutions:
    """Learned from published queries and pairs."""

    def __init__(self, *, queries: pa.Table, pairs: pa.Table) -> None:
        self._phrases = learn_phrases(queries)
        sides = [pairs[name].combine_chunks() for name in ("query", "next_query")]
        coded = pa.concat_arrays(sides).dictionary_encode()
        code, self._texts = coded.indices.to_numpy().astype(np.int64), coded.dictionary
        first, second, weight = code[: len(pairs)], code[len(pairs) :], _evidence(pairs)
        total = float(_evidence(queries).sum())
        self._whole = followers(first, second, weight, texts=self._texts, query_total=total)
        phrases, ends = self._phrases.cut(self._texts)
        parts = phrases.dictionary_encode()
        self._parts = parts.dictionary
        code = parts.indices.to_numpy().astype(np.int64)
        changes = _changes(first, second, weight, code, ends, len(self._parts))
        self._changed = followers(*changes, texts=self._parts, query_total=total)

    def answers(self, questions: pa.Array) -> npt.NDArray[np.bool_]:
        """Which questions have a substitution."""
        phrases, ends = self._phrases.cut(questions)
        changeable = self._changed.has(places(phrases, self._parts))
        before = np.concatenate([[0], np.cumsum(changeable)])
        return self._whole.has(places(questions, self._texts)) | (np.diff(before[ends]) > 0)

    def top(self, questions: pa.Array, most: int) -> list[list[str]]:
        """The best substitutions of each question, at most `most`.

        First whole queries that users asked next, then queries with one phrase replaced; each by the
        likelihood ratio.
        """
        whole = places(questions, self._texts)
        phrases, ends = self._phrases.cut(questions)
        number, texts = places(phrases, self._parts), phrases.to_pylist()
        return [
            self._best(int(at), texts[begin:end], number[begin:end], most)
            for at, begin, end in zip(whole, ends[:-1], ends[1:], strict=True)
        ]

    def _best(self, whole: int, phrases: list[str], numbers: Ints, most: int) -> list[str]:
        """The substitutions of one question, from its phrases."""
        best = list[str]()
        if whole >= 0:
            near = self._whole.of(whole, most)
            best = self._texts.take(pa.array(self._whole.follower[near])).to_pylist()
        if len(best) == most:
            return best
        changed = list[tuple[float, str]]()
        for place, number in enumerate(numbers):
            if number < 0:
                continue
            # Twice as many, since up to `most` of them may repeat whole queries.
            near = self._changed.of(int(number), 2 * most)
            other = self._parts.take(pa.array(self._changed.follower[near])).to_pylist()
            for phrase, ratio in zip(other, self._changed.ratio[near], strict=True):
                text = " ".join([*phrases[:place], phrase, *phrases[place + 1 :]])
                changed.append((-ratio, text))
        return list(dict.fromkeys([*best, *(text for _, text in sorted(changed))]))[:most]


def _changes(
    first: Ints, second: Ints, weight: Floats, phrases: Ints, ends: Ints, size: int
) -> tuple[Ints, Ints, Floats]:
    """Pairs of a phrase and its replacement, with the weight of all pairs of queries that have them.

    From pairs of queries that differ in one phrase each; phrases that both have are ignored.
    """
    lengths = np.diff(ends)
    keys, key_weights = [np.zeros(0, np.int64)], [np.zeros(0)]
    for begin in range(0, len(first), PORTION):
        part = slice(begin, begin + PORTION)
        a, b = lengths[first[part]], lengths[second[part]]
        pair = np.repeat(np.arange(len(a)), a * b)  # one row for a phrase of each side
        within = np.arange(len(pair)) - np.repeat(np.cumsum(a * b) - a * b, a * b)
        left, right = within // b[pair], within % b[pair]  # places in the two queries
        left_phrase = phrases[ends[first[part]][pair] + left]
        right_phrase = phrases[ends[second[part]][pair] + right]
        same = left_phrase == right_phrase
        left, right = (np.cumsum(a) - a)[pair] + left, (np.cumsum(b) - b)[pair] + right
        left_only, right_only = np.ones(a.sum(), bool), np.ones(b.sum(), bool)
        left_only[left[same]] = False
        right_only[right[same]] = False
        different = (
            np.bincount(np.repeat(np.arange(len(n)), n)[only], minlength=len(n))
            for n, only in ((a, left_only), (b, right_only))
        )
        single = np.logical_and(*(count == 1 for count in different))
        rows = np.flatnonzero(single[pair] & left_only[left] & right_only[right])
        keys.append(left_phrase[rows] * size + right_phrase[rows])
        key_weights.append(weight[part][pair[rows]])
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    return key // size, key % size, sum_by_place(place, np.concatenate(key_weights), len(key))


def _evidence(table: pa.Table) -> Floats:
    """The counts of a table; FEWEST for each row of a table without counts, since it was published."""
    return weights(table) if count_of(table) else np.full(len(table), FEWEST)


def _words(texts: pa.Array) -> tuple[pa.Array, Ints]:
    """The words of all texts one after another, and where each text's begin and the last ends."""
    lists = pc.split_pattern(texts, " ")
    ends = np.zeros(len(texts) + 1, np.int64)
    ends[1:] = np.cumsum(pc.list_value_length(lists).to_numpy())
    return pc.list_flatten(lists), ends


def _among(keys: Ints, ordered: Ints) -> npt.NDArray[np.bool_]:
    """Which keys are among the ordered ones."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    place = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.asarray(ordered[place] == keys)

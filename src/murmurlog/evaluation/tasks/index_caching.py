"""Index caching (ZEALOUS 2.3.2, 7.2): how often a word's posting list is found in memory."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.keys import keywords
from murmurlog.bundle.models.derived_tables import texts
from murmurlog.bundle.models.index_caching import Index, words_to_cache
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import Ints, Scores, Scoring
from murmurlog.evaluation.tasks.held_out_sessions import places_in_groups, searches
from murmurlog.evaluation.tasks.protocol import Settings, Tables, Unfit, complete
from murmurlog.evaluation.tasks.sampling import once_per_truth, spread

SHARES = (0.01, 0.05, 0.1)  # of the whole index; a gigabyte holds all of a small one


def score(tables: Tables, truth: Truth, settings: Settings) -> Scoring:
    """The probability that a word of a held-out user's query has its posting list in memory.

    A question is a word of a query that a held-out user asked in a session; it is 1 if its list is
    in memory, 0 if not, and no answer if the release does not know the word. So the score with
    misses as 0 is the paper's hit probability.
    Differs: the workload is that of users whom the release has not seen; the paper takes the log
    itself. Beside 1 GB there are memories that hold a share of the index.
    """
    released = complete(tables)
    if "keyword" not in released:
        raise Unfit("needs a keyword or query table")
    index, source = _index(truth, settings)
    words, users = _workload(truth, settings)
    in_release = pc.is_in(words, value_set=released["keyword"]["keyword"].combine_chunks())
    unknown = ~in_release.to_numpy(zero_copy_only=False)
    scores = Scoring()
    for label, memory in _memories(index, settings):
        hit = pc.is_in(words, value_set=words_to_cache(released["keyword"], index, memory))
        values = hit.to_numpy(zero_copy_only=False).astype(float)
        values[unknown] = np.nan
        measure = f"hit probability, {label}, lengths by {source}"
        scores.append(Scores(measure=measure, values=values, users=users))
    return scores


def _memories(index: Index, settings: Settings) -> list[tuple[str, int]]:
    """The sizes of memory to score, in words and in bytes."""
    shares = [(f"{share:.0%} of the index", int(share * index.size)) for share in SHARES]
    return [(f"{settings.cache_bytes / 1e9:g} GB", settings.cache_bytes), *shares]


def _index(truth: Truth, settings: Settings) -> tuple[Index, str]:
    """The lengths of posting lists, and where they are from."""
    if settings.doc_freq is not None:
        words = pa.array(list(settings.doc_freq), pa.string())
        lengths = np.fromiter(settings.doc_freq.values(), np.int64, len(words))
        return Index(words=words, lengths=lengths), "--doc-freq"
    if "click" not in truth.tables:
        raise Unfit("needs clicks in the log, or --doc-freq for the lengths of posting lists")
    return _clicked_index(truth), "clicked urls"


@once_per_truth
def _clicked_index(truth: Truth) -> Index:
    return clicked_index(truth.tables["click"])


def clicked_index(clicks: pa.Table) -> Index:
    """An index in which a word is in every url that was clicked for a query with that word."""
    query = clicks["query"].combine_chunks().dictionary_encode()
    words = [keywords(text) for text in query.dictionary.to_pylist()]
    many = np.array(list(map(len, words)), np.int64)
    flat = pa.array(itertools.chain.from_iterable(words), pa.string()).dictionary_encode()
    code, start = flat.indices.to_numpy().astype(np.int64), np.cumsum(many) - many
    url = clicks["url"].combine_chunks().dictionary_encode()
    of = query.indices.to_numpy()  # one row a click
    row, within = places_in_groups(many[of])  # one a click and word

    word = code[start[of[row]] + within]
    pairs = np.unique(word * len(url.dictionary) + url.indices.to_numpy()[row])
    lengths = np.bincount(pairs // max(1, len(url.dictionary)), minlength=len(flat.dictionary))
    return Index(words=flat.dictionary, lengths=lengths)


def _workload(truth: Truth, settings: Settings) -> tuple[pa.Array, Ints]:
    """The words of held-out users' queries, and who asked for them."""
    columns = ["user", "session", "query"]
    rows = searches(truth).group_by(columns, use_threads=False).aggregate([])
    rows = rows.take(pa.array(spread(np.arange(rows.num_rows), settings.questions)))
    words = [keywords(query) for query in texts(rows, "query")]
    users = np.repeat(rows["user"].to_numpy(), list(map(len, words)))
    return pa.array(itertools.chain.from_iterable(words), pa.string()), users

"""What an attacker gains: sybils, joined pseudonyms, inverted hashes. docs/explanation/results.md quotes it.

    python benchmarks/attacks.py [--rows 400000] [--words 1000000] [--trials 50000]

Logs are invented (murmurlog generate --like aol), so nobody is attacked. Each function is one
attack and returns what it achieved; nothing here is part of the package.
"""

import argparse
import hashlib
import math
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array, diags_array

import murmurlog
from murmurlog.bundle.keys import keywords
from murmurlog.counting.tally import SingleShard, Tally
from murmurlog.logs.invented.generate import invent
from murmurlog.logs.partitions import LocalPartitions, Sums
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.workspace import Workspace
from murmurlog.mechanisms import Threshold
from murmurlog.privacy.sampler import Entropy, SystemEntropy

TARGET = "rare illness of the victim"


# --- sybils ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Guess:
    """How well an attacker tells a log with the victim from one without, over many trials."""

    hit: float  # says "in" when the victim is
    false_alarm: float  # says "in" when it is not
    trials: int  # of each

    @property
    def advantage(self) -> float:
        return self.hit - self.false_alarm

    @property
    def posterior(self) -> float:
        """P(the victim is in | the attacker says so), from even odds."""
        return self.hit / (self.hit + self.false_alarm)

    @property
    def margin(self) -> float:
        """The advantage is this near the true one, but for a chance of 1e-6 (Hoeffding)."""
        return 2 * math.sqrt(math.log(4e6) / (2 * self.trials))


def most_advantage(epsilon: float, delta: float) -> float:
    """The largest advantage of any attacker against (epsilon, delta)-DP."""
    return (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)


def with_sybils(log: pa.Table, query: str, sybils: int, *, victim: bool) -> pa.Table:
    """The log and so many invented ids that ask the query; with the victim, one more."""
    names = [f"sybil{i}" for i in range(sybils)] + ["the victim"] * victim
    n = len(names)
    more = {"user": names, "query": [query] * n, "time": [log["time"][0].as_py()] * n}
    columns = [
        pa.array(more.get(field.name, [None] * n), field.type).cast(field.type)
        for field in log.schema
    ]
    return pa.concat_tables([log, pa.Table.from_arrays(columns, schema=log.schema)])


def is_published(log: pa.Table, query: str, **options: object) -> bool:
    """Whether a release of the log, from its rows to a bundle, holds the query."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        pq.write_table(log, path)
        murmurlog.release(str(path), out=Path(folder) / "b", tables=["query"], **options)
        table = murmurlog.load(Path(folder) / "b").tables["query"]
    return query in set(table["query"].to_pylist())


def sybils_by_presence(m: Threshold, *, trials: int, entropy: Entropy) -> Guess:
    """The attack on k-anonymity, on `threshold`: T - 1 sybils; is the query there?

    The victim asked d queries that the attacker knows, or nothing; with d = 1 the guess is "in" if
    the query is published, else if at least as many are as is likelier with the victim.
    """
    said = {}
    p = [m.pass_probability(m.T - 1 + held) for held in (0, 1)]
    needed = next(n for n in range(m.d + 2) if n > m.d or _likelier(n, m.d, p))
    for held in (0, 1):
        shown, _ = _published(m, users=m.T - 1 + held, trials=trials, entropy=entropy)
        said[held] = float((shown.sum(axis=1) >= needed).mean())
    return Guess(hit=said[1], false_alarm=said[0], trials=trials)


def _likelier(n: int, d: int, p: list[float]) -> bool:
    """Whether n of d published queries are likelier with the victim."""
    out, within = (n * math.log(q) + (d - n) * math.log1p(-q) for q in p)
    return within > out


def sybils_by_count(m: Threshold, *, trials: int, entropy: Entropy) -> Guess:
    """Many sybils, so that each query is there for sure; the counts added up tell."""
    base, said = 40 * m.T, {}
    for held in (0, 1):
        _, users = _published(m, users=base + held, trials=trials, entropy=entropy)
        said[held] = float((users.sum(axis=1) > m.d * (base + 0.5)).mean())
    return Guess(hit=said[1], false_alarm=said[0], trials=trials)


def _published(
    m: Threshold, *, users: int, trials: int, entropy: Entropy
) -> tuple[np.ndarray, ...]:
    """(shown, users) of d queries of so many users, trial by trial, from the mechanism's own steps.

    Every query has a draw of its own, so the trials can stand side by side in one tally.
    """
    names = [f"{trial:07d} {i:03d}" for trial in range(trials) for i in range(m.d)]
    queries = pa.table({"query": names})
    sums = Sums(TextKeys().columns(queries.columns), np.full(len(names), users, np.int64))
    tally = Tally(
        shards=SingleShard(sums), bounded=LocalPartitions((), Workspace(Path, memory=0, threads=1)), kind="query", keys=("query",),
        unit="user", per_user=m.d, public=queries,
    )  # fmt: skip
    table = m.release(tally, entropy=entropy)
    at = np.searchsorted(np.array(names), np.array(table["query"].to_pylist(), dtype="U11"))
    shown, counts = np.zeros(len(names), bool), np.zeros(len(names))
    shown[at], counts[at] = True, table["users"].to_numpy()
    return shown.reshape(trials, m.d), counts.reshape(trials, m.d)


# --- pseudonyms -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Pseudonyms of a first period matched with those of a second one."""

    users: int  # in both periods
    right: np.ndarray  # for each of them, whether the one match that is best is the right one
    queries: np.ndarray  # distinct queries in the poorer period

    def share(self, least: int = 1) -> float:
        """Of those with at least so many distinct queries in each period, the share joined."""
        return float(self.right[self.queries >= least].mean())


def join_pseudonyms(log: pa.Table, *, seed: int) -> Joined:
    """Two periods with new names for everybody in each, joined by the queries they share."""
    times = log["time"].to_numpy()
    late = times >= np.sort(times)[len(times) // 2]
    users, queries = (log[name].combine_chunks().dictionary_encode() for name in ("user", "query"))
    rng = np.random.default_rng(seed)
    names = [rng.permutation(len(users.dictionary)) for _ in range(2)]  # the owner's secret
    periods = [
        _histories(names[i][users.indices.to_numpy()[part]], queries.indices.to_numpy()[part],
                   shape=(len(users.dictionary), len(queries.dictionary)))
        for i, part in enumerate((~late, late))
    ]  # fmt: skip
    # From here on only pseudonyms. A query that few ask says more about who asks it.
    holders = np.asarray((periods[0] + periods[1]).sum(axis=0)).ravel()
    weight = diags_array(np.log1p(len(users.dictionary) / np.maximum(holders, 1)))
    overlap = csr_array(periods[0] @ weight @ periods[1].T)
    guess = np.array([_best(overlap, row) for row in range(overlap.shape[0])])
    # The owner's secret again, to count.
    size = [
        np.asarray((part > 0).sum(axis=1)).ravel()[name]
        for part, name in zip(periods, names, strict=True)
    ]
    both = (size[0] > 0) & (size[1] > 0)
    right = guess[names[0]] == names[1]
    return Joined(users=int(both.sum()), right=right[both], queries=np.minimum(*size)[both])


def _histories(names: np.ndarray, queries: np.ndarray, *, shape: tuple[int, int]) -> csr_array:
    table = csr_array((np.ones(len(names)), (names, queries)), shape=shape)
    table.data[:] = 1.0
    return table


def _best(overlap: csr_array, row: int) -> int:
    """The name with the largest overlap; -1 if there is none or it is not the only one."""
    values = overlap.data[overlap.indptr[row] : overlap.indptr[row + 1]]
    if not len(values) or (values == values.max()).sum() > 1:
        return -1
    return int(overlap.indices[overlap.indptr[row] + values.argmax()])


# --- hashes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Inverted:
    """Hashed words, the most frequent first, and whether the attacker's word for each is right."""

    right: np.ndarray
    rows: np.ndarray  # how often each occurs

    def share(self, top: int) -> float:
        """Of the most frequent hashes, how many are inverted."""
        return float(self.right[:top].mean())

    @property
    def volume(self) -> float:
        """Of all occurrences of words in the log, how many can be read."""
        return float(self.rows[self.right].sum() / self.rows.sum())


def invert_hashes(log: pa.Table, public: pa.Table, *, key: bytes) -> Inverted:
    """Every word of a log replaced by a secret keyed hash; the n-th hash is the n-th public word."""
    plain = word_counts(log)
    secret = {hashlib.blake2b(word.encode(), key=key).hexdigest(): word for word in plain}
    hashed = Counter({digest: plain[word] for digest, word in secret.items()})
    # The attacker sees `hashed` and `public`.
    ranked = sorted(hashed, key=lambda digest: (-hashed[digest], digest))
    known = word_counts(public)
    guess = sorted(known, key=lambda word: (-known[word], word))
    right = [secret[digest] == word for digest, word in zip(ranked, guess, strict=False)]
    right += [False] * (len(ranked) - len(right))
    return Inverted(right=np.array(right), rows=np.array([hashed[digest] for digest in ranked]))


def word_counts(log: pa.Table) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for row in pc.value_counts(log["query"]).to_pylist():
        for word in keywords(row["values"]):
            counts[word] += row["counts"]
    return counts


# --- figures --------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--words", type=int, default=1_000_000, help="rows of the hashed log")
    parser.add_argument("--trials", type=int, default=50_000)
    given = parser.parse_args()
    log = invent(rows=given.rows, seed=1, like="aol").table
    print(f"invented log: {log.num_rows} rows, {len(pc.unique(log['user']))} users")

    print("\nsybils against k-anonymity, by whole releases")
    for name, sybils in (("k-query:20", 19), ("users-30", 29)):
        for victim in (False, True):
            attacked = with_sybils(log, TARGET, sybils, victim=victim)
            shown = is_published(attacked, TARGET, mechanism=name, accept_no_guarantee=True)
            print(f"  {name:11} {sybils} sybils, victim {'in ' if victim else 'out'}: "
                  f"{'published' if shown else 'absent'}")  # fmt: skip

    print("\nthe same attacker against threshold, epsilon 1, delta 1e-6")
    epsilon, delta = 1.0, 1e-6
    print(f"  any attacker: advantage at most {most_advantage(epsilon, delta):.3f}, "
          f"posterior at most {math.exp(epsilon) / (1 + math.exp(epsilon)):.3f} but for delta")  # fmt: skip
    for d in (1, 10):
        m = Threshold.solve(epsilon=epsilon, delta=delta, d=d)
        for name, attack in (("presence", sybils_by_presence), ("count", sybils_by_count)):
            found = attack(m, trials=given.trials, entropy=SystemEntropy())
            print(f"  d={d:<3} {m.noise:9} T={m.T:<4} by {name:8}: advantage {found.advantage:.3f} "
                  f"(+-{found.margin:.3f}), posterior {found.posterior:.3f}")  # fmt: skip

    print("\npseudonyms changed half-way, joined by the queries in both halves")
    joined = join_pseudonyms(log, seed=1)
    print(f"  {joined.users} users in both; by chance {1 / joined.users:.5f}")
    for least in (1, 5, 10, 20):
        n = int((joined.queries >= least).sum())
        print(f"  at least {least:2} distinct queries in each: {n:6} users, joined {joined.share(least):.3f}")  # fmt: skip

    print("\nwords hashed with a secret key, inverted by rank")
    logs = [invent(rows=given.words, seed=seed, like="aol").table for seed in (1, 2)]
    inverted = invert_hashes(*logs, key=b"a secret of the owner's")
    print(f"  {given.words} rows; the public text is another log of as many, by other users")
    for top in (10, 30, 100, 1000):
        print(f"  of the {top:4} most frequent hashes: {inverted.share(top):.3f}")
    print(f"  of all words in the log: {inverted.volume:.3f}")


if __name__ == "__main__":
    main()

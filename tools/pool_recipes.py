"""Recipes for public pools that cover queries of many users: sites, titles, words, public queries.

Such queries are names of sites and things, or words and short phrases. Each recipe gives distinct,
normalised queries, the likeliest first, from a public file; `interleave` takes them in turn. Nothing
is random and nothing looks at a log (A4): `build_pool.check_public` refuses files that look like one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path

import pyarrow as pa

from murmurlog.bundle.keys import normalise
from murmurlog.counting.public_sets.sets import lines_of
from murmurlog.errors import InputError, Refused, UsageError
from tools.build_pool import (
    FUNCTION,
    LOOKS_LIKE_LOG,
    build,
    check_public,
    check_size,
    check_text,
    split_runs,
)

# Second levels below which names are registered, as in example.co.uk.
_SECOND = frozenset(["ac", "co", "com", "edu", "gob", "gov", "go", "ne", "net", "nom", "or", "org"])
_DOMAIN = re.compile(r"(?=.{1,253}$)(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+[^\W\d_][\w-]*[^\W_]")
_ORIGIN = re.compile(r"^https?://|(?::\d+)?/?$")
_TOPIC = re.compile(r"<(title|query)>\s*(?:Topic:)?\s*([^<]*)")  # of TREC: SGML and XML
_NUMBERED = re.compile(r"\d{1,6}:")  # of TREC's files of numbered queries
_BRACKETS = re.compile(r"\s*\([^()]*\)$")
MOST_WORDS = 8  # of a title: longer ones are hardly ever asked as they are


@dataclass(frozen=True, kw_only=True)
class PoolSources:
    """The public files that a pool is made of, by recipe."""

    phrases: Sequence[Path] = ()  # n-grams that end in a noun, then the dictionary (`build`)
    sites: Sequence[Path] = ()
    titles: Sequence[Path] = ()
    text: Sequence[Path] = ()
    queries: Sequence[Path] = ()

    def __post_init__(self) -> None:
        if not any((self.phrases, self.sites, self.titles, self.text, self.queries)):
            raise UsageError(
                "a pool is made of public files: give --sites, --titles, --text, --queries or --from"
            )


def make_pool(sources: PoolSources, *, size: int) -> pa.Array:
    """At most `size` distinct queries; with phrases exactly so many, as the dictionary fills up."""
    check_size(size)
    for path in (*sources.phrases, *sources.text):
        check_text(path)
    for path in (*sources.sites, *sources.titles, *sources.queries):
        check_public(path)
    lists: list[Iterable[str]] = []
    if sources.queries:
        lists.append(public_queries(sources.queries))
    if sources.sites:
        lists.append(site_names(sources.sites))
    if sources.titles:
        lists.append(titles(sources.titles))
    if sources.text:
        lists.append(words_and_pairs(sources.text))
    if sources.phrases:
        if not lists:
            return build(sources.phrases, size=size)
        lists.append(build(sources.phrases, size=size).to_pylist())
    return pa.array(islice(interleave(lists), size), pa.string())


def interleave(lists: Sequence[Iterable[str]]) -> Iterator[str]:
    """The first of every list, then the second of every list, and so on; each query once."""
    seen: set[str] = set()
    for row in zip_longest(*lists):
        for query in row:
            if query is not None and query not in seen:
                seen.add(query)
                yield query


def site_names(paths: Sequence[Path]) -> Iterator[str]:
    """Of ranked domains (rank,domain, origin,rank, or a domain a line): the name, the domain, it with www."""
    for path in paths:
        row = 0
        for lines in lines_of(path):
            for line in lines.to_pylist():
                row += 1
                # Of rank,domain (Tranco) and origin,rank (CrUX), the field with a dot.
                field = next((each for each in line.split(",") if "." in each), "")
                domain = normalise(_ORIGIN.sub("", field.strip().strip('"'))) or ""
                if not _DOMAIN.fullmatch(domain):
                    if row == 1 or not line.strip():
                        continue  # a header, or an empty line
                    raise InputError(
                        f"{path.name}, line {row} has no domain: a line is a domain, rank,domain or origin,rank"
                    )
                yield from _site_forms(domain.removeprefix("www."))


def _site_forms(domain: str) -> Iterator[str]:
    """The ways to ask for a site; of a host below a registered name only the host."""
    labels = domain.split(".")
    suffix = 2 if len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND else 1
    if len(labels) == suffix + 1:
        yield labels[0]
    yield domain
    if len(labels) == suffix + 1:
        yield f"www.{domain}"
        if "-" in labels[0]:
            yield labels[0].replace("-", " ")


def titles(paths: Sequence[Path]) -> list[str]:
    """Titles without what stands in brackets at their end; _ is a space.

    A line is a title or title<TAB>views; below a header `page_namespace` it is namespace<TAB>title, and
    titles of namespace 0 count. Those with most views come first; then names that several titles share,
    then short titles of frequent words.
    """
    views: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for path in paths:
        for title, seen in _titles_of(path):
            if title and len(title.split(" ")) <= MOST_WORDS:
                views[title] += seen
                count[title] += 1
    words = Counter(word for title in count for word in title.split(" "))

    def rank(title: str) -> tuple[int, int, int, int, str]:
        each = title.split(" ")
        return -views[title], -count[title], len(each), -min(words[w] for w in each), title

    return sorted(count, key=rank)


def _titles_of(path: Path) -> Iterator[tuple[str | None, int]]:
    """The title of each line, and its views."""
    lines = _lines(path)
    first = next(lines, "")
    namespaces = first.startswith("page_namespace")
    for line in lines if namespaces or first == "page_title" else chain([first], lines):
        title, _, more = line.partition("\t")
        if namespaces:
            title, more = (more if title == "0" else ""), ""
        clean = _BRACKETS.sub("", title.strip().replace("_", " "))
        yield normalise(clean), int(more) if more.strip().isdecimal() else 0


def words_and_pairs(paths: Sequence[Path]) -> list[str]:
    """Words of running text and pairs of neighbouring ones by frequency; none starts or ends with "of"."""
    found: Counter[str] = Counter()
    for path in paths:
        for line in _lines(path):
            for run in split_runs(line):
                found.update(word for word in run if word not in FUNCTION and not word.isdecimal())
                found.update(
                    f"{first} {second}"
                    for first, second in pairwise(run)
                    if first not in FUNCTION and second not in FUNCTION
                )
    if not found:
        raise InputError("there is no word in " + ", ".join(path.name for path in paths))
    return sorted(found, key=lambda key: (-found[key], key))


def public_queries(paths: Sequence[Path]) -> list[str]:
    """Queries of public sets by how many lines have them: a query a line, id<TAB>query, or TREC's topics.

    Further columns (ORCAS: documents) are ignored. An id belongs to one query; where it has several it
    is a user, and the file is a log.
    """
    found: Counter[str] = Counter()
    for path in paths:
        by_id: dict[str, str] = {}
        for line in _queries_of(path):
            columns = line.split("\t")
            text = columns[1] if len(columns) > 1 else columns[0]
            if len(columns) > 1 and by_id.setdefault(columns[0], text) != text:
                raise Refused(LOOKS_LIKE_LOG.format(name=path.name))
            if (query := normalise(text)) is not None:
                found[query] += 1
    return sorted(found, key=lambda query: -found[query])  # stable: in the files' order


def _queries_of(path: Path) -> Iterator[str]:
    """The lines of a file; of TREC's topics their titles, of its numbered queries the text after the number."""
    lines = _lines(path)
    first = next(lines, "")
    if first.lstrip().startswith("<"):
        text = "\n".join(chain([first], lines))
        # A topic of the web track has a query, earlier topics only a title.
        texts = {
            tag: [t for name, t in _TOPIC.findall(text) if name == tag]
            for tag in ("query", "title")
        }
        yield from (unescape(" ".join(text.split())) for text in texts["query"] or texts["title"])
    elif _NUMBERED.match(first):
        yield from (_NUMBERED.sub("", line, count=1) for line in chain([first], lines))
    else:
        yield from chain([first], lines)


def _lines(path: Path) -> Iterator[str]:
    for lines in lines_of(path):
        yield from lines.to_pylist()

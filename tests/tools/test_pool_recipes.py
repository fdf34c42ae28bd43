"""Pools of sites, titles, words and public queries: what is in them, in which order, what is refused."""

import gzip
import json
from functools import partial

import pytest
from command import run

from murmurlog.bundle.keys import normalise
from murmurlog.counting.public_sets.sets import read_pool
from murmurlog.errors import InputError, Refused, UsageError
from tools import pool as pool_command
from tools.pool_recipes import (
    PoolSources,
    interleave,
    make_pool,
    public_queries,
    site_names,
    titles,
    words_and_pairs,
)

run_pool = partial(run, main=pool_command.main)
SITES = "1,google.com\n2,www.bbc.co.uk\n3,maps.google.com\n4,coca-cola.com\n5,münchen.de\n"
TITLES = "page_title\nMercury_(planet)\nMercury_(element)\nThe_Old_River\nRiver\n\nOld_Town\n"
QUERIES = "174\tWeather  in Berlin\n175\tmaps\n175\tmaps\n176\t\n"


@pytest.fixture
def write(tmp_path):
    def written(name, content):
        path = tmp_path / name
        data = content.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return written


@pytest.mark.parametrize("name", ["sites.csv", "sites.csv.gz", "sites.txt"])
def test_a_site_is_asked_by_its_name_and_its_domain(write, name):
    found = list(site_names([write(name, SITES)]))
    assert found == [
        *("google", "google.com", "www.google.com"),
        *("bbc", "bbc.co.uk", "www.bbc.co.uk"),
        "maps.google.com",  # a host below a name: people ask for it as it is
        *("coca-cola", "coca-cola.com", "www.coca-cola.com", "coca cola"),
        *("münchen", "münchen.de", "www.münchen.de"),
    ]


def test_a_list_of_domains_may_have_a_header_and_no_ranks(write):
    assert list(site_names([write("a.csv", "rank,domain\n1,x.org\n")]))[:2] == ["x", "x.org"]
    assert list(site_names([write("b.txt", "x.org\ny.net\n")]))[3] == "y"
    with pytest.raises(InputError, match=r"c\.csv, line 2 has no domain"):
        list(site_names([write("c.csv", "1,x.org\n2,not a domain\n")]))


def test_origins_with_ranks_are_sites(write):
    crux = "origin,rank\nhttps://www.google.com,1000\nhttp://x.org:8080,5000\n"
    assert list(site_names([write("crux.csv.gz", crux)])) == [
        *("google", "google.com", "www.google.com"),
        *("x", "x.org", "www.x.org"),
    ]


@pytest.mark.parametrize(
    "content",
    [
        "1:obama family tree\n2:AT&T: history\n",
        "<top>\n<num> Number: 301\n<title> Topic:  Obama family\n  tree\n\n<desc> Description:\nx\n"
        "</top>\n<top>\n<title>AT&T: history\n</top>\n",
        '<webtrack2009>\n<topic number="1" type="faceted">\n<query>obama family tree</query>\n'
        '<description>no</description>\n</topic>\n<topic number="2">\n<query>AT&amp;T: history</query>\n'
        "</topic></webtrack2009>\n",
    ],
    ids=["numbered", "sgml", "xml"],
)
def test_topics_of_trec_are_queries(write, content):
    assert public_queries([write("topics.txt", content)]) == ["obama family tree", "at&t: history"]


def test_titles_lose_their_brackets_and_the_shared_and_short_come_first(write):
    found = titles([write("titles.txt", TITLES)])
    assert found == ["mercury", "river", "old town", "the old river"]


def test_titles_of_another_namespace_are_left_out_and_views_rank(write):
    talk = "page_namespace\tpage_title\n0\tRiver\n1\tRiver_talk\n0\tSea\n0\t1984\n"
    assert titles([write("all.tsv", talk)]) == ["1984", "river", "sea"]
    assert titles([write("views.tsv", "River\t5\nSea_(lake)\t70\n")]) == ["sea", "river"]
    assert titles([write("long.txt", "A_b_c_d_e_f_g_h_i\n")]) == []


def test_words_and_pairs_come_by_frequency_without_small_words(write):
    found = words_and_pairs([write("t.txt", "The town hall of Berlin. The town hall, in 2006!\n")])
    assert found == ["hall", "town", "town hall", "berlin"]
    with pytest.raises(InputError, match=r"no word in e\.txt"):
        words_and_pairs([write("e.txt", "... 12\n")])


def test_public_queries_come_by_their_lines(write):
    assert public_queries([write("q.tsv", QUERIES)]) == ["maps", "weather in berlin"]
    assert public_queries([write("q.txt", "b\na\nb \n")]) == ["b", "a"]
    orcas = "10\tmaps\tD1\thttps://a\n11\tnews\tD2\thttps://b\n11\tnews\tD3\thttps://c\n"
    assert public_queries([write("orcas.tsv", orcas)]) == ["news", "maps"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("headless.tsv", "u1\tmaps\nu1\tnews\n"),  # an id with two queries is a user
        ("log.tsv", "user\tquery\nu1\tmaps\n"),
        ("log.txt", "uid;q\n1;maps\n"),
        ("log.csv", "user,time,query\n1,2020-01-01,maps\n"),
    ],
)
@pytest.mark.parametrize("recipe", ["queries", "titles", "sites", "text", "phrases"])
def test_no_recipe_takes_a_log(write, recipe, name, content):
    path = write(name, content)
    if name == "headless.tsv" and recipe in ("titles", "sites"):
        return  # what these make of it are no queries
    with pytest.raises(Refused, match="looks like a search log"):
        make_pool(PoolSources(**{recipe: [path]}), size=10)


def test_recipes_take_turns_and_each_query_comes_once():
    assert list(interleave([["a", "b"], ["b", "c", "d"], []])) == ["a", "b", "c", "d"]


def test_a_pool_of_all_recipes_is_normal_and_as_large_as_asked(write):
    sources = PoolSources(
        sites=[write("s.csv", SITES)],
        titles=[write("t.txt", TITLES)],
        text=[write("x.txt", "old town halls\n")],
        queries=[write("q.tsv", QUERIES)],
    )
    pool = make_pool(sources, size=1000).to_pylist()
    assert pool[:4] == ["maps", "google", "mercury", "halls"]
    assert len(pool) == len(set(pool)) == 14 + 4 + 5 + 2 - 1  # "old town" is in two
    assert all(normalise(query) == query for query in pool)
    assert make_pool(sources, size=7).to_pylist() == pool[:7]
    more = PoolSources(sites=sources.sites, phrases=sources.text)
    assert len(make_pool(more, size=5000)) == 5000  # the dictionary fills up
    with pytest.raises(UsageError, match="--sites, --titles, --text, --queries or --from"):
        PoolSources()
    with pytest.raises(UsageError, match="--size must lie"):
        make_pool(sources, size=0)


def test_the_command_measures_publishable_queries_and_a_log_for_the_owner_alone(
    write, write_tsv, tmp_path
):
    sites, out = write("s.csv", SITES), tmp_path / "pool.txt"
    rows = [{"user": f"u{n}", "time": "2026-01-01", "query": "google"} for n in range(12)]
    log = write_tsv([*rows, {"user": "u1", "time": "2026-01-01", "query": "mine alone"}])
    words = write("words.txt", "maps weather news videos\n")
    done = run_pool("--sites", sites, "--text", words, "--size", 50, "--out", out, "--json",
               "--against", log)  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["size"] == read_pool(out).size == 14 + 7
    assert set(result["coverage"]) == {"plain", "aol"}  # never the owner's log
    assert 0 < result["coverage"]["plain"]["publishable"]["50"] <= 1
    assert "of log.tsv the pool holds 50.00% of the distinct queries" in done.stderr
    assert "10: 100.0%, 20: none there" in done.stderr
    assert "for your eyes only" in done.stderr
    assert "no longer public" in done.stderr.replace("\n", " ")


def test_a_pool_is_not_measured_on_what_it_is_made_of(write, tmp_path):
    log = write("log.csv", "user,time,query\n1,2020-01-01,maps\n")
    out = tmp_path / "pool.txt"
    done = run_pool("--queries", log, "--size", 5, "--out", out, "--against", log)
    assert done.returncode == 3
    assert "log.csv is the log" in done.stderr
    none = run_pool("--size", 5, "--out", out)
    assert none.returncode == 2
    assert "--sites, --titles" in none.stderr
    assert not out.exists()

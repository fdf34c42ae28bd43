"""The invented log: reproducible, exact in size, heavy-tailed, in every format, with things to find."""

import re
from collections import Counter
from dataclasses import replace
from urllib.parse import urlsplit

import duckdb
import numpy as np
import pytest
from log_readers import read_rows

from murmurlog.errors import UsageError
from murmurlog.logs.invented import texts
from murmurlog.logs.invented.clicks import clicked_ranks
from murmurlog.logs.invented.generate import (
    POPULATIONS,
    check_labels,
    check_target,
    invent,
    write,
    write_labels,
)
from murmurlog.logs.invented.missions import draw_missions


@pytest.fixture(scope="module")
def log():
    return invent(rows=100_000, seed=2)


def test_size_and_shape(log):
    t = log.table
    assert t.num_rows == log.rows
    found = duckdb.sql(
        """
        SELECT count(*), count(DISTINCT user), count(url) / count(*), count(DISTINCT query),
               min(time), max(time) FROM t
        """
    ).fetchone()
    rows, users, clicked, distinct, first, last = found
    assert rows == 100_000
    assert users == log.users == 2_500
    assert 0.5 < clicked < 0.56
    assert 30_000 < distinct < 70_000
    assert first.year == last.year == 2026
    single = duckdb.sql(
        "SELECT count(*) FILTER (u = 1) / count(*) FROM "
        "(SELECT query, count(DISTINCT user) AS u FROM t GROUP BY query)"
    ).fetchone()[0]
    assert single > 0.75  # the long tail that one person asks
    top = duckdb.sql(
        "SELECT query FROM t GROUP BY query ORDER BY count(DISTINCT user) DESC LIMIT 3"
    ).fetchall()
    assert ("weather",) in top


def test_rows_of_a_click_have_a_rank_and_others_none(log):
    t = log.table
    odd = duckdb.sql("SELECT count(*) FROM t WHERE (url IS NULL) <> (rank IS NULL)").fetchone()[0]
    assert t.num_rows > 0
    assert odd == 0


@pytest.mark.parametrize("like", [None, "aol", "zealous"])
def test_the_same_seed_gives_the_same_log_and_another_seed_another(like):
    log, same, other = (invent(rows=5_000, seed=seed, like=like) for seed in (1, 1, 2))
    assert log.table.equals(same.table)
    assert log.labels == same.labels
    assert not log.table.equals(other.table)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.tsv.gz", "a.jsonl.zst"])
@pytest.mark.parametrize("like", [None, "aol"])
def test_every_format_reads_back_the_same(tmp_path, name, like):
    small = invent(rows=2_000, seed=5, like=like)
    write(small, tmp_path / name)
    keys = {"user": "user", "query": "query", "time": "time", "url": "url"}
    rows, broken = read_rows(
        tmp_path / name, source_options={"columns": keys if ".jsonl" in name else None}
    )
    assert broken == {}
    assert len(rows) == 2_000
    wanted = small.table.select(["user", "query"]).to_pylist()
    assert Counter((row["user"], row["query"]) for row in rows) == Counter(
        (row["user"], row["query"]) for row in wanted
    )


@pytest.mark.parametrize("like", [None, "aol", "zealous"])
def test_a_single_row(like):
    assert invent(rows=1, seed=1, like=like).table.num_rows == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": 0}, "--rows must be at least 1, not 0"),
        ({"seed": -1}, "--seed must not be negative, but is -1"),
        ({"like": "altavista"}, "--like 'altavista' is not known: choose aol or zealous"),
    ],
)
def test_bad_parameters_are_named(wrong, message):
    with pytest.raises(UsageError, match=message):
        invent(**{"rows": 10, "seed": 1, "like": "aol"} | wrong)


def test_a_population_asks_no_more_kinds_than_queries():
    with pytest.raises(UsageError, match="leave some to be shared"):
        replace(POPULATIONS["aol"], own=0.8)


def test_bad_targets_are_named(tmp_path):
    with pytest.raises(UsageError, match="cannot write a.parquet.gz: a log can be"):
        write(invent(rows=1, seed=1), tmp_path / "a.parquet.gz")
    with pytest.raises(UsageError, match="there is no folder"):
        check_target(tmp_path / "none" / "a.csv")
    out = tmp_path / "a.csv"
    with pytest.raises(UsageError, match="--labels needs --like"):
        check_labels(tmp_path / "b.csv", like=None, out=out)
    with pytest.raises(UsageError, match="choose two files"):
        check_labels(out, like="aol", out=out)
    with pytest.raises(UsageError, match="labels can be parquet, csv"):
        check_labels(tmp_path / "b.jsonl", like="aol", out=out)
    out.write_text("")
    with pytest.raises(UsageError, match="choose another --labels"):
        check_labels(out, like="aol", out=tmp_path / "b.csv")


# Two hundredths of the users of the AOL log.


@pytest.fixture(scope="module")
def invented_log():
    return invent(rows=727_791, seed=4, like="aol")


@pytest.fixture(scope="module")
def database(invented_log):
    """DuckDB with the log as `log` and what is planted as `labels`."""
    connection = duckdb.connect()
    connection.register("log", invented_log.table)
    connection.register("labels", invented_log.labels)
    yield connection
    connection.close()


def first_row(found, query):
    return found.execute(query).fetchone()


def test_a_fiftieth_has_a_fiftieth_of_the_users_rows_and_clicks(invented_log, database):
    users, clicks, queries = first_row(
        database, "SELECT count(DISTINCT user), count(url), count(DISTINCT query) FROM log"
    )
    assert invented_log.rows == invented_log.table.num_rows == 727_791
    assert users == invented_log.users == round(657_426 / 50)
    assert clicks == pytest.approx(19_442_629 / 50, rel=0.05)
    # Shared queries stay those of the whole: fewer users meet each other less often, and 1/50 of the
    # users asks more than 1/50 of the distinct queries.
    assert queries == pytest.approx(1.40 * 10_154_742 / 50, rel=0.1)


def test_few_users_ask_the_same_head_as_many(database):
    few = invent(rows=100_000, seed=9, like="aol").table
    database.register("few", few)
    share = "SELECT count(*) / (SELECT count(*) FROM {0}) FROM {0} WHERE query = 'weather'"
    (many,), (some,) = (
        first_row(database, share.format("log")),
        first_row(database, share.format("few")),
    )
    assert some == pytest.approx(many, rel=0.35)
    top = "(SELECT query FROM {} GROUP BY query ORDER BY count(DISTINCT user) DESC LIMIT 30)"
    (both,) = first_row(
        database,
        f"SELECT count(*) FROM {top.format('log')} SEMI JOIN {top.format('few')} USING (query)",
    )
    assert both >= 20


def test_a_row_is_a_click_or_a_query_without_one(database):
    odd, unordered = first_row(
        database,
        """
        SELECT count(*) FILTER ((url IS NULL) <> (rank IS NULL)), count(*) FILTER (time < before)
        FROM (SELECT *, lag(time) OVER () AS before FROM log)
        """,
    )
    assert odd == unordered == 0
    # Of several rows of one submission each is a click.
    several, clicks = first_row(
        database,
        """
        SELECT count(*) FILTER (n > 1), count(*) FILTER (n > 1 AND clicks = n) FROM
        (SELECT count(*) AS n, count(url) AS clicks FROM log GROUP BY user, time, query)
        """,
    )
    assert several == clicks > 50_000
    (two_at_once,) = first_row(
        database,
        "SELECT count(*) FROM (SELECT 1 FROM log GROUP BY user, time HAVING count(DISTINCT query) > 1)",
    )
    assert two_at_once == 0


def test_rows_fall_into_sessions(database):
    queries, sessions = first_row(
        database,
        """
        SELECT count(*), count(*) FILTER (gap IS NULL OR gap > INTERVAL 30 MINUTE) FROM (
            SELECT time - lag(time) OVER (PARTITION BY user ORDER BY time) AS gap
            FROM (SELECT DISTINCT user, time FROM log)
        )
        """,
    )
    assert 2 < queries / sessions < 5


def test_repeats_and_clicks_are_as_many_as_printed_for_aol(database):
    # U500k_README.txt of the AOL log: 21,011,340 new queries, 7,887,022 next pages, 16,946,938 without a click.
    submissions, repeats, without = first_row(
        database,
        """
        SELECT count(*), count(*) FILTER (query = before), count(*) FILTER (clicks = 0) FROM (
            SELECT query, clicks, lag(query) OVER (PARTITION BY user ORDER BY time) AS before FROM
            (SELECT user, time, query, count(url) AS clicks FROM log GROUP BY user, time, query)
        )
        """,
    )
    assert submissions == pytest.approx(28_898_362 / 50, rel=0.03)
    assert repeats == pytest.approx(7_887_022 / 50, rel=0.05)
    assert without == pytest.approx(16_946_938 / 50, rel=0.04)


def test_clicks_fall_with_the_rank_as_in_aol(database):
    shares = database.execute(
        """
        SELECT 100 * count(*) / (SELECT count(url) FROM log) FROM log
        WHERE rank <= 10 GROUP BY rank ORDER BY rank
        """
    ).fetchall()
    printed = (42.1, 11.9, 8.5, 6.1, 4.9, 4.1, 3.4, 3.0, 2.8, 3.0)
    assert [share for (share,) in shares] == pytest.approx(printed, abs=0.8)


def test_users_specialise_generalise_and_take_other_words(database):
    specialised, generalised, moved, steps = first_row(
        database,
        """
        SELECT count(*) FILTER (starts_with(query, before || ' ')),
               count(*) FILTER (starts_with(before, query || ' ')),
               count(*) FILTER (split_part(query, ' ', 1) = split_part(before, ' ', 1)
                   AND query[: length(before)] <> before AND before[: length(query)] <> query),
               count(*)
        FROM (
            SELECT query, time, lag(query) OVER w AS before, time - lag(time) OVER w AS gap FROM log
            WINDOW w AS (PARTITION BY user ORDER BY time)
        ) WHERE query <> before AND gap < INTERVAL 30 MINUTE
        """,
    )
    assert 0.1 < specialised / steps < 0.2
    assert 0.03 < generalised / steps < 0.1
    assert 0.1 < moved / steps < 0.3


def test_users_who_mean_another_intent_click_other_results():
    query = np.arange(200_000)
    of_two = query[texts.intents(query) == 2][:20_000]
    page, engaged = np.zeros_like(of_two), np.ones(len(of_two), bool)
    share = []
    for intent in (0, 1):
        submission, rank = clicked_ranks(
            np.random.default_rng(1),
            query=of_two,
            intent=page + intent,
            page=page,
            engaged=engaged,
            again=~engaged,
        )
        _, served = texts.result(of_two[submission][rank > 0], rank[rank > 0])
        share.append(served.mean())  # of clicks on results of the second intent
    assert share[0] < 0.15
    assert share[1] > 0.4


def test_users_who_repeat_a_query_mostly_click_the_same_as_often_as_others_click():
    query = np.repeat(np.arange(20_000), 2)
    second = np.tile([False, True], 20_000)
    same, clicks = [], []
    for again in (second, second & False):
        submission, rank = clicked_ranks(
            np.random.default_rng(1),
            query=query,
            intent=np.zeros_like(query),
            page=np.zeros_like(query),
            engaged=np.ones(len(query), bool),
            again=again,
        )
        hit = np.zeros((len(query), 11), bool)
        hit[submission, rank] = True
        same.append((hit[::2] == hit[1::2]).all(axis=1).mean())
        clicks.append(hit[1::2, 1:].sum())
    assert same[0] > 0.8 > 0.4 > same[1]
    assert clicks[0] == pytest.approx(clicks[1], rel=0.03)


def test_results_change_with_time_but_a_site_stays_where_its_name_leads():
    query = np.arange(50_000)
    site = texts.pack(texts.SITE, query)
    first = np.ones_like(query)

    def changed(of, rank, days):
        before, after = (texts.clicked_host(of, rank, first * day) for day in (0, days))
        return (before != after).mean()

    assert changed(query, first, 0) == changed(site, first, 90) == 0
    assert changed(query, first, 10) == pytest.approx(1 / 3, abs=0.02)  # every 30 days
    assert changed(query, 5 * first, 10) == pytest.approx(1 / 2, abs=0.02)  # every 20 days
    assert changed(query, first, 40) > 0.95


def test_names_of_sites_are_mostly_a_session_of_their_own_or_tried_in_another_form():
    user = np.repeat(np.arange(2_000), 30)
    missions = draw_missions(np.random.default_rng(1), POPULATIONS["aol"], seed=1, user=user)
    site = texts.kind_of(missions.query) == texts.SITE
    new = missions.new_session[1:]
    assert new[site[:-1]].mean() > 0.75 > 0.5 > new[~site[:-1] & ~site[1:]].mean()
    both = site[:-1] & site[1:] & ~new
    number = missions.query & (texts.NUMBERS - 1)
    same_site = number[:-1] // texts.FORMS == number[1:] // texts.FORMS
    assert (both & same_site).sum() > 100
    # The rest is a favourite site that comes back by chance.
    assert (number[:-1] != number[1:])[both & same_site].mean() > 0.7


def test_weekends_and_nights_are_quieter(database):
    (weekend, night) = first_row(
        database,
        """
        SELECT count(*) FILTER (dayofweek(time) IN (0, 6)) / count(*),
               count(*) FILTER (hour(time) BETWEEN 2 AND 5) / count(*) FROM log
        """,
    )
    assert weekend < 0.95 * 26 / 92  # of 92 days 26 are Saturdays or Sundays
    assert 0.02 < night < 0.1


def test_labels_point_to_queries_and_urls_that_are_there(database):
    kinds = dict(database.execute("SELECT kind, count(*) FROM labels GROUP BY kind").fetchall())
    assert kinds["fear"] == 40
    for kind in ("misspelling", "reformulation", "navigational", "topic"):
        assert kinds[kind] > 1_000
    assert kinds["personal"] > 100
    assert sum(kinds.values()) < 100_000
    for query in (
        "SELECT count(*) FROM labels ANTI JOIN log USING (query) WHERE kind <> 'topic'",
        """
        SELECT count(*) FROM labels ANTI JOIN log ON target = log.query
        WHERE kind IN ('misspelling', 'reformulation')
        """,
        "SELECT count(*) FROM labels ANTI JOIN log ON target = url WHERE kind = 'navigational'",
        """
        SELECT count(*) FROM labels ANTI JOIN log ON url = 'http://' || labels.query
        WHERE kind = 'topic'
        """,
        "SELECT count(*) - count(DISTINCT (kind, query, target)) FROM labels",
    ):
        assert first_row(database, query) == (0,), query
    url = first_row(database, "SELECT url FROM log WHERE url IS NOT NULL")[0]
    assert urlsplit(url).hostname == url.removeprefix("http://")


def test_reformulations_and_corrections_follow_each_other_in_the_log(database):
    database.execute(
        """
        CREATE OR REPLACE TEMP TABLE steps AS
        SELECT DISTINCT query, after FROM (
            SELECT query, lead(query) OVER (PARTITION BY user ORDER BY time) AS after FROM log
        ) WHERE query <> after
        """
    )
    for kind, least in (("reformulation", 1.0), ("misspelling", 0.6)):
        (share,) = first_row(
            database,
            f"""
            SELECT avg((after IS NOT NULL)::INT) FROM (FROM labels WHERE kind = '{kind}') AS planted
            LEFT JOIN steps ON planted.query = steps.query AND target = after
            """,
        )
        assert share >= least


def test_fears_decline_and_come_back(database):
    counts = database.execute(
        """
        SELECT count(DISTINCT user) FROM labels JOIN log USING (query)
        WHERE kind = 'fear' GROUP BY query ORDER BY 1 DESC
        """
    ).fetchall()
    assert counts[0][0] > 3 * counts[9][0] > 6 * counts[39][0] > 0


def test_navigational_users_come_back_to_the_same_url(database):
    (returning,) = first_row(
        database,
        """
        SELECT count(*) FROM (
            SELECT 1 FROM log JOIN labels ON log.query = labels.query AND url = target
            WHERE kind = 'navigational' GROUP BY user, log.query HAVING count(DISTINCT time) > 2
        )
        """,
    )
    assert returning > 2_000


def test_queries_mostly_lead_to_sites_of_one_topic(database):
    (share,) = first_row(
        database,
        """
        SELECT sum(most) / sum(n) FROM (
            SELECT max(n) AS most, sum(n) AS n FROM (
                SELECT log.query, target, count(*) AS n FROM log
                JOIN labels ON kind = 'topic' AND url = 'http://' || labels.query
                GROUP BY log.query, target
            ) GROUP BY query HAVING sum(n) > 10
        )
        """,
    )
    assert share > 0.75


def luhn(number):
    digits = [int(d) for d in reversed(number.replace(" ", ""))]
    doubled = [sum(divmod(2 * d, 10)) for d in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def test_personal_strings_look_like_what_they_are_called_and_are_nobodys(database):
    shapes = {
        "email": r"[a-z]+\.[a-z]+@example\.(com|org|net)",
        "phone": r"[2-9]\d\d-555-01\d\d",
        "card": r"4000 0000 \d{4} \d{4}",
        "us-ssn": r"9\d\d-[0-4]\d-\d{4}",
        "address": r"\d+ [a-z]+ (street|avenue|road) [a-z]+",
    }
    seen = set()
    for query, pattern in database.execute(
        "SELECT query, target FROM labels WHERE kind = 'personal'"
    ).fetchall():
        assert re.fullmatch(shapes[pattern], query), query
        assert pattern != "card" or luhn(query)
        seen.add(pattern)
    assert seen == set(shapes)


def test_a_hundredth_of_the_zealous_log_has_its_days_and_users():
    t = invent(rows=120_000, seed=1, like="zealous").table
    users, days = duckdb.sql(
        "SELECT count(DISTINCT user), date_diff('day', min(time), max(time)) FROM t"
    ).fetchone()
    whole = POPULATIONS["zealous"]
    assert users == round(120_000 * whole.users / whole.rows)
    assert t.num_rows == 120_000
    assert 28 <= days <= 30


@pytest.mark.parametrize("name", ["l.parquet", "l.csv"])
def test_labels_are_written_and_read_back(tmp_path, name):
    small = invent(rows=3_000, seed=3, like="aol")
    write_labels(small, tmp_path / name)
    back = duckdb.sql(f"FROM '{tmp_path / name}' ORDER BY ALL").fetchall()
    assert back == sorted(tuple(row.values()) for row in small.labels.to_pylist())

"""What one reader, or one forged bundle, can cost the page: time and memory."""

import asyncio
import json
import random
import shutil
import threading
import time
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sample_bundles
from hostile_bundles import put, seal
from starlette.testclient import TestClient

import murmurlog
from murmurlog.auditing.verify import verify
from murmurlog.bundle.schema import in_order, is_reliable
from murmurlog.bundle.table_rules import MOST_MARKS
from murmurlog.cli.serve import verify_bundle
from murmurlog.errors import BundleError
from murmurlog.web import app as application
from murmurlog.web import parameters as asked
from murmurlog.web import template_helpers
from murmurlog.web.answers import AnswerCache
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Hosts
from murmurlog.web.index import QUESTION_BYTES, Sheet
from murmurlog.web.query_lookup import similar_queries

LIGATURE = "\ufdfa"  # one letter that becomes eighteen, four words of them
AT = "http://127.0.0.1:8765"


def client_of(bundles):
    made = application.make(bundles, verifier=verify_bundle, hosts=Hosts(port=8765))
    return TestClient(made, base_url=AT, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def sound_bundle(tmp_path_factory):
    return sample_bundles.write_small_bundle(tmp_path_factory.mktemp("bundles") / "sound")


@pytest.fixture
def bundle(sound_bundle, tmp_path):
    return shutil.copytree(sound_bundle, tmp_path / "forged")


@pytest.fixture(scope="module")
def served(sound_bundle):
    return ServedBundles([sound_bundle]).first


@pytest.fixture(scope="module")
def client(sound_bundle):
    return client_of(ServedBundles([sound_bundle]))


def cpu(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


# --- long texts (2) -------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/?q=", "/complete?q=", "/top?match="])
def test_a_text_that_grows_when_it_is_normalised_is_refused_in_little_time(client, address):
    answer, seconds = cpu(lambda: client.get(address + quote(LIGATURE * 6_900)))
    assert answer.status_code == 400
    assert "letters; at most" in answer.text
    assert seconds < 1.0


def test_the_limit_counts_the_letters_after_normalising(client):
    few = asked.MOST_LETTERS // 18 - 10
    assert client.get("/?q=" + quote(LIGATURE * few)).status_code == 200
    assert client.get("/?q=" + quote(LIGATURE * (few + 20))).status_code == 400


def test_marks_on_one_letter_are_counted_before_they_are_put_in_order(client):
    pile = "a" + "\u0315\u0300" * 5_000
    answer, seconds = cpu(lambda: client.get("/?q=" + quote(pile)))
    assert answer.status_code == 400
    assert f"more than {MOST_MARKS:,} combining marks" in answer.text
    assert seconds < 1.0
    assert client.get("/?q=" + quote("e\u0301" * 3_000)).status_code == 200


def test_a_query_of_many_words_takes_no_more_time_than_its_letters(client):
    words = "w " * 5_999
    answer, seconds = cpu(lambda: client.get("/?q=" + quote(words)))
    assert answer.status_code == 200
    assert seconds < 0.5


def similar_by_search(served, query, k=8):
    """What `similar_queries` gives, found by trying every beginning."""
    words = query.split(" ")
    tried = [" ".join(words[:n]) for n in range(len(words), 0, -1)]
    tried += [words[0][:size] for size in range(min(len(words[0]) - 1, 20), 1, -1)]
    for begun in tried:
        if queries := [text for text, _ in served.index.complete(begun, k)]:
            return queries
    return []


def test_what_is_alike_is_what_trying_every_beginning_finds(served):
    choice = random.Random(3)
    texts = served.index._completer.texts
    for _ in range(600):
        text = choice.choice(texts)[:60]
        cut = text[: choice.randint(0, len(text))]
        query = (cut + choice.choice(["", " ", "x", " zz", "we", " a b"])).strip()
        assert similar_queries(served.index, " ".join(query.split())) == similar_by_search(
            served, " ".join(query.split())
        )


def test_patterns_are_short_and_have_few_stars(client):
    assert client.get("/top?match=" + "*a" * 16).status_code == 200
    many = client.get("/top?match=" + "*a" * 17)
    assert (many.status_code, "more than 16 of" in many.text) == (400, True)
    assert client.get("/top?match=" + "a" * 2_001).status_code == 400


def test_work_is_done_beside_the_loop(sound_bundle, monkeypatch):
    """While eight queries are worked on, a static file is there at once."""
    bundles = ServedBundles([sound_bundle])
    made = application.make(bundles, verifier=verify_bundle, hosts=Hosts(port=8765))
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(served, query):
        begun.release()
        assert go_on.wait(20)
        return real(served, query)

    from murmurlog.web import views

    real = views.look_up
    monkeypatch.setattr(views, "look_up", slow)

    async def asked_at_once():
        heavy = [asyncio.create_task(status(made, "/", b"q=weather")) for _ in range(8)]
        for _ in heavy:
            await asyncio.to_thread(begun.acquire, timeout=20)
        start = time.monotonic()
        style = await status(made, "/static/page.css")
        waited = time.monotonic() - start
        go_on.set()
        return style, waited, await asyncio.gather(*heavy)

    style, waited, heavy = asyncio.run(asked_at_once())
    assert (style, heavy) == (200, [200] * 8)
    assert waited < 1.0


async def status(app, path, query=b""):
    answers = []
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
        "query_string": query, "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765), "scheme": "http", "http_version": "1.1", "root_path": "",
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        answers.append(message)

    await app(scope, receive, send)
    return answers[0]["status"]


# --- forged tables (3) ----------------------------------------------------------------------------


def rewrite(bundle, name, table):
    """Puts a table into a bundle, with its rows stated and right checksums."""
    path = bundle / "data" / f"{name}.parquet"
    metadata = pq.read_schema(path).metadata
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")
    stated = json.loads((bundle / "privacy.json").read_text())
    stated["tables"][name]["rows"] = table.num_rows
    (bundle / "privacy.json").write_text(json.dumps(stated))
    seal(bundle)


def make_table(texts, users):
    table = pa.table(
        {"query": pa.array(texts), "users": pa.array(users, pa.int64()),
         "users_stderr": pa.array([2.0] * len(texts))}
    )  # fmt: skip
    return table.append_column("reliable", is_reliable(table["users"], table["users_stderr"]))


def test_many_equal_rows_in_a_small_table_are_refused_by_all(bundle):
    rewrite(bundle, "query", make_table(["w"] * 500_000, [900] * 500_000))
    assert (bundle / "data" / "query.parquet").stat().st_size < 20_000
    with pytest.raises(BundleError, match="data/query.parquet has rows in which a key repeats"):
        _ = murmurlog.load(bundle).tables
    with pytest.raises(BundleError, match="forged cannot be shown: .* a key repeats"):
        ServedBundles([bundle])
    failed = {check.name: check.message for check in verify(bundle).checks if not check.ok}
    assert "a key repeats" in failed["table query"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (make_table(["a", "b"], [800, 900]), "canonical order"),
        (make_table(["b", "a"], [900, 900]), "canonical order"),
        (make_table(["a", "b", "a"], [900, 800, 700]), "a key repeats"),
        (make_table(["A"], [900]), "not normalised"),
        (make_table(["\u00c9"], [900]), "not normalised"),
        (make_table(["a  b"], [900]), "not normalised"),
        (make_table([" a"], [900]), "not normalised"),
        (make_table([""], [900]), "not normalised"),
        (make_table(["a\u00a0b"], [900]), "not normalised"),
        (make_table(["a\x07b"], [900]), "control characters"),
        (make_table(["a\u2028b"], [900]), "control characters"),
        (make_table(["a" + "\u0315\u0300" * 600], [900]), "1000 marks on one letter"),
        (make_table(["a"], [4]), None),
        (make_table(["\u00e9", "\u6771\u4eac", "a"], [900, 900, 900]).take([2, 0, 1]), None),
        (make_table([], []).cast(make_table(["a"], [1]).schema), None),
    ],
)  # fmt: skip
def test_load_and_verify_say_the_same_about_a_table(bundle, table, words):
    rewrite(bundle, "query", table)
    failed = {c.name: c.message for c in verify(bundle).checks if not c.ok}.get("table query", "")
    if words is None:
        assert murmurlog.load(bundle).tables["query"].num_rows == table.num_rows
        assert not any(word in failed for word in ("order", "repeats", "characters", "normalised"))
        return
    assert words in failed
    for refuses in (lambda: murmurlog.load(bundle).tables, lambda: ServedBundles([bundle])):
        with pytest.raises(BundleError, match=words):
            refuses()


@pytest.mark.parametrize("rows", [2, 997])
def test_the_order_is_the_one_that_rows_are_put_in(bundle, rows):
    choice = random.Random(rows)
    texts = [f"q {n:04}" for n in range(rows)]
    users = [choice.randint(100, 130) for _ in texts]
    ordered = in_order(make_table(texts, users))
    rewrite(bundle, "query", ordered)
    assert murmurlog.load(bundle).tables["query"].num_rows == rows
    for _ in range(4):
        a, b = sorted(choice.sample(range(rows), 2))
        places = list(range(rows))
        places[a], places[b] = b, a
        rewrite(bundle, "query", ordered.take(places))
        with pytest.raises(BundleError, match="canonical order"):
            _ = murmurlog.load(bundle).tables


def test_counts_that_are_not_exact_in_floating_point_are_refused(bundle):
    table = make_table(["a"], [900])
    rewrite(bundle, "query", table.set_column(1, "users", pa.array([2**60], pa.int64())))
    with pytest.raises(BundleError, match="counts that are too large for any log"):
        _ = murmurlog.load(bundle).tables


def test_many_small_row_groups_are_put_together(bundle):
    path = bundle / "data" / "query.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=1)
    seal(bundle)
    assert table.num_rows > 200
    assert murmurlog.load(bundle).tables["query"]["query"].num_chunks == 1


def test_a_bundle_without_noise_can_be_shown_and_added_up(write_tsv, tmp_path):
    rows = [{"user": f"u{n}", "time": "2026-01-31 18:00:00", "query": "weather"} for n in range(30)]
    out = tmp_path / "bundle"
    murmurlog.release(
        str(write_tsv(rows)), out=out, tables=["query"], mechanism="k-query:20",
        accept_no_guarantee=True,
    )  # fmt: skip
    total = murmurlog.load(out).total("query")
    assert (total.value, total.low, total.high) == (30, 30, float("inf"))
    assert str(total) == "at least 30 users in the log, 95 % sure (30 counted)"
    (count,) = client_of(ServedBundles([out])).get("/complete?q=weather").json()["completions"]
    assert (count["count"]["value"], count["count"]["low"]) == (30, 30)


def test_an_empty_value_in_a_list_is_refused(sound_bundle, tmp_path):
    from dataclasses import replace

    from murmurlog.bundle.read import read_certificate
    from murmurlog.bundle.write import publish

    honest = read_certificate(sound_bundle)
    claim = replace(honest.tables["query"], rows=1)
    certificate = replace(honest, tables={"session": claim})
    for n, (queries, words) in enumerate(
        [([["a", None]], "empty values"), ([[]], "an empty list"), ([["a", "b"]], None)]
    ):
        table = pa.table(
            {"queries": pa.array([["a", "b"]]), "users": [900], "users_stderr": [2.0],
             "reliable": [True]}
        )  # fmt: skip
        out = tmp_path / str(n)
        publish(out, tables={"session": table}, certificate=certificate)
        path = out / "data" / "session.parquet"
        stored = pq.read_table(path)
        odd = pa.array(queries, pa.list_(pa.string()))
        pq.write_table(stored.set_column(0, "queries", odd), path)
        seal(out)
        if words:
            with pytest.raises(BundleError, match=words):
                ServedBundles([out])
        else:
            assert client_of(ServedBundles([out])).get("/top").status_code == 200


# --- what is remembered (4) -----------------------------------------------------------------------


def test_what_is_remembered_is_bounded_by_bytes():
    answers = AnswerCache(most=10_000)
    for n in range(100):
        answers.get(n, lambda: np.zeros(250), lambda answer: answer.nbytes)
        assert answers.size <= 10_000
    assert len(answers) == 5
    computed = []
    for n in (99, 0, 99):
        answers.get(n, lambda n=n: computed.append(n) or np.zeros(250), lambda a: a.nbytes)
    assert computed == [0]  # 99 was remembered, 0 was not any more
    answers.get("large", lambda: np.zeros(5_000), lambda answer: answer.nbytes)
    assert len(answers) == 5


def test_patterns_on_a_large_table_take_no_more_than_the_room(served):
    texts = [f"{n:06}" for n in range(100_000)]
    table = make_table(texts, [900] * len(texts))
    answers = AnswerCache(most=4 << 20)
    sheet = Sheet("query", table, served.certificate, answers)
    for n in range(64):
        rows = sheet.find(f"*{n}*" if n else "", column="query", sort="text", falling=False)
        assert len(rows) > 0
        assert answers.size <= 4 << 20
    size = sum(value.nbytes + QUESTION_BYTES for value, _ in answers._answers.values())
    assert size <= answers.size + 64 * 100


# --- answers have a size --------------------------------------------------------------------------


def test_long_texts_do_not_make_large_answers(bundle):
    texts = sorted(f"{n:04}" + chr(0xE02) * 12_000 for n in range(300))
    rewrite(bundle, "query", make_table(texts, [900] * len(texts)))
    client = client_of(ServedBundles([bundle]))
    for address in (
        "/", "/top?size=200", "/complete?q=0", "/?q=0001", "/?q=zz",
    ):  # fmt: skip
        answer = client.get(address)
        assert answer.status_code == 200
        assert len(answer.content) < 2_000_000, address
    # Completions that are too long to be looked up are left out.
    assert client.get("/complete?q=0").json()["completions"] == []


def test_a_link_that_would_be_too_long_is_left_out():
    assert template_helpers.query_address("weather", "spring") == "/?q=weather&b=spring"
    assert template_helpers.query_address("w" * 2_000, "spring") == ""


# --- forged certificates (5) ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "value", "key"),
    [
        (("about", "title"), "\ud800", "about.title"),
        (("tables", "query", "passes", "0.95"), "many", "tables.query.passes.0.95"),
        (("tables", "query", "passes"), [1], "tables.query.passes"),
        (("tables", "query", "passes"), {"0.7": 1}, "a key of tables.query.passes"),
        (("declared_users",), 10**4000, "declared_users"),
        (("tables", "query", "parameters", "scale"), float("nan"), "parameters.scale"),
        (("tables", "query", "parameters", "more"), float("nan"), "parameters.more"),
        (("tables", "query", "parameters", "more"), ["\ud800"], r"parameters.more\[0\]"),
        (("tables", "query", "notes"), {"x": float("inf")}, "tables.query.notes.x"),
        (("tables", "query", "notes"), {"x": [[[[[[]]]]]]}, "tables.query.notes.x"),
        (("tables", "query", "rows"), True, "tables.query.rows"),
        (("tables", "query", "guarantee", "delta"), 5e-324, "tables.query.guarantee.delta"),
        (("guarantee", "epsilon"), None, "guarantee.epsilon"),
        (("guarantee", "unit"), "\x1b", "guarantee.unit"),
        (("published",), "31.1.2026", "published"),
        (("release_id",), "x", "release_id"),
        (("by",), {"column": "c", "values": []}, "by.values"),
        (("ledger",), {"source": "x"}, "ledger.releases_before"),
        (("text", "since"), "\x1b", "text.since"),
        (("noise",), {}, "noise.method"),
        (("unprotected",), ["x" * 10_000] * 11, "unprotected"),
    ],
)  # fmt: skip
def test_a_certificate_that_breaks_the_schema_is_a_corrupt_bundle(bundle, at, value, key):
    path = bundle / "privacy.json"
    path.write_text(json.dumps(put(json.loads(path.read_text()), at, value)))
    seal(bundle)
    for reads in (murmurlog.load, verify, lambda root: ServedBundles([root])):
        with pytest.raises(BundleError, match=f"privacy.json is damaged: .*{key}.* must") as caught:
            reads(bundle)
        assert caught.value.exit_code == 6
        assert len(str(caught.value)) < 400


def test_a_page_answers_where_a_certificate_says_less_than_a_release_would(tmp_path, write_tsv):
    rows = [{"user": f"u{n}", "query": "weather"} for n in range(300)]
    out = tmp_path / "rounds"
    murmurlog.release(write_tsv(rows), out=out, epsilon=9.0)
    path = out / "privacy.json"
    at = ("tables", "query", "parameters", "grid")
    path.write_text(json.dumps(put(json.loads(path.read_text()), at, None)))
    seal(out)
    with client_of(ServedBundles([out])) as client:
        assert client.get("/?q=no+such+thing").status_code == 200


def test_every_key_of_a_certificate_is_needed_or_has_a_usual_value(sound_bundle):
    from murmurlog.bundle.certificate import Certificate

    stated = json.loads((sound_bundle / "privacy.json").read_text())
    derived = {"delta_times_users", "composition"}
    for key in set(stated) - derived - {"format"}:
        less = {name: value for name, value in stated.items() if name != key}
        with pytest.raises(BundleError, match=f"{key} must be there"):
            Certificate.from_json(less)


def test_the_parameters_of_every_mechanism_keep_to_the_schema():
    from explore import TEXTS

    from murmurlog.bundle import certificate_schema
    from murmurlog.mechanisms import parse
    from murmurlog.publishing.plan import PROBABILITIES

    assert tuple(map(str, PROBABILITIES)) == certificate_schema.PASSES
    for text in TEXTS:
        mechanism = parse(text)
        stated = json.loads(json.dumps(mechanism.parameters()))
        certificate_schema._parameters(stated, text)
        for p in PROBABILITIES:
            certificate_schema._optional(certificate_schema._whole(0))(mechanism.passes(p), text)


def test_one_bad_bundle_among_several_is_named(sound_bundle, bundle):
    path = bundle / "privacy.json"
    path.write_text(json.dumps(put(json.loads(path.read_text()), ("about", "title"), "\ud800")))
    seal(bundle)
    with pytest.raises(BundleError, match="^forged cannot be shown: .*about.title"):
        ServedBundles([sound_bundle, bundle])
    assert client_of(ServedBundles([sound_bundle])).get("/").status_code == 200

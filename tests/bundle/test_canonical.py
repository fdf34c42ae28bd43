"""Canonical keys: a public, total, idempotent function that only removes; what a release does with it."""

import json
import re

import pyarrow as pa
import pytest
from certificates import make_certificate, make_table
from hostile_bundles import seal
from hypothesis import given
from hypothesis import strategies as st
from spellings import SPELLINGS
from starlette.testclient import TestClient

import murmurlog
from murmurlog.bundle.canonical import CANONICAL, ENDINGS, canonical, changeable, cleaner
from murmurlog.bundle.keys import VERSIONS, normalise
from murmurlog.bundle.write import publish
from murmurlog.cli.serve import verify_bundle
from murmurlog.errors import BundleError, OtherVersion, UsageError
from murmurlog.evaluation.evaluate import reading_of
from murmurlog.logs.options import ReadOptions
from murmurlog.web import app
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Hosts

PARTS = st.sampled_from(
    ["http://", "https:/", "www.", "www ", "x", "ab-c", "é", "1", "23", ".", " ", ". ", "/", "com", ".com",
     "co.uk", ".de", '"', "'", "“", "”", "«", "»", "?", "!", "¿", ":", "-", "_", "@", "क्\u200d", "می\u200c",
     "\u0301", "Σ", "İ"]
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(PARTS, max_size=9).map("".join))


@pytest.mark.parametrize(("text", "key"), SPELLINGS.items())
def test_a_text_has_the_key_that_was_written_down(text, key):
    assert canonical(text) == key


def test_there_are_sixty_examples_and_most_of_them_change():
    assert len(SPELLINGS) >= 60
    assert sum(normalise(text) != key for text, key in SPELLINGS.items()) > 25


@given(TEXTS, st.sampled_from([*VERSIONS.values()]))
def test_every_text_that_can_be_normalised_has_a_key_and_a_key_is_its_own(text, version):
    key = canonical(text, version=version)
    assert (key is None) == (normalise(text, version=version) is None)
    if key is not None:
        assert key
        assert normalise(key, version=version) == key
        assert canonical(key, version=version) == key


@given(TEXTS)
def test_a_key_keeps_all_digits_and_the_order_of_words(text):
    """So two texts share a key only if they have the same digits, and words in one order."""
    clean, key = normalise(text) or "", canonical(text) or ""
    assert re.findall(r"\d", key) == re.findall(r"\d", clean)
    left = iter(re.findall(r"\w+", clean))
    assert all(word in left for word in re.findall(r"\w+", key))
    assert len(key) <= len(clean)


@given(TEXTS)
def test_engines_skip_no_text_that_changes(text):
    for keys in (None, CANONICAL):
        skipped = text == text.strip(" ") != "" and not re.search(changeable(keys), text)
        assert not skipped or cleaner(keys)(text) == text


@pytest.mark.parametrize(
    "text", ["http://" * 9000, "www." * 9000 + "x", "a-" * 30_000, "a." * 30_000, "'\"." * 20_000, "a " * 30_000]
)  # fmt: skip
def test_long_texts_have_keys_too(text):
    """Steps are linear: with quadratic ones this test would take minutes."""
    key = canonical(text)
    assert key
    assert canonical(key) == key


def test_endings_are_lower_case_host_names():
    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+)?", ending) for ending in ENDINGS)


# --- releases -------------------------------------------------------------------------------------

SITES = ("www.shop.com", "shop.com", "shop", "http://shop.com/", '"Shop"')


@pytest.fixture
def log(write_tsv):
    """300 users, each of whom asks all spellings of one site; and one who asks something else."""
    rows = [{"user": f"u{n}", "query": query} for n in range(300) for query in SITES]
    return str(write_tsv([*rows, {"user": "v", "query": "rare"}], columns=("user", "query")))


def release_log(log, out, **options):
    keywords = {"tables": ["query"], "epsilon": 20, "delta": 1e-6, "keys": "canonical"}
    murmurlog.release(log, out=out, **(keywords | options))
    return murmurlog.load(out)


def test_a_release_of_canonical_keys_says_so_and_is_verified(log, tmp_path):
    release = release_log(log, tmp_path / "b")
    assert murmurlog.verify(tmp_path / "b").ok
    (row,) = release.tables["query"].to_pylist()
    assert row["query"] == "shop"
    assert 290 < row["users"] < 310  # five spellings of a user are one
    assert release.certificate.text["keys"] == "canonical-1"
    for card in ("README.md", "report.html", "croissant.json"):
        assert "Spellings of one query share a key" in (tmp_path / "b" / card).read_text("utf-8")
    assert "keys: canonical-1" in (tmp_path / "b" / "deployment.yaml").read_text("utf-8")


def test_without_the_choice_nothing_is_folded(log, tmp_path):
    release = release_log(log, tmp_path / "b", keys="normalised")
    assert murmurlog.verify(tmp_path / "b").ok
    assert release.certificate.text["keys"] is None
    assert set(release.tables["query"]["query"].to_pylist()) == {text.lower() for text in SITES}
    assert "Spellings" not in (tmp_path / "b" / "README.md").read_text("utf-8")


def test_an_unknown_choice_is_refused(log, tmp_path):
    with pytest.raises(
        UsageError, match="--keys must be one of normalised, canonical, not 'plural'"
    ):
        release_log(log, tmp_path / "b", keys="plural")


def test_public_keys_are_folded_before_they_are_distinct(log, tmp_path):
    (tmp_path / "pool.txt").write_text("www.shop.com\nSHOP.COM\nwww.other.org/\n")
    (tmp_path / "deny.txt").write_text("http://www.other.org\n")
    options = {"mechanism": "pool", "pool": tmp_path / "pool.txt", "per_user": 2, "fakes": 0.9}
    release = release_log(log, tmp_path / "b", deny=tmp_path / "deny.txt", **options)
    assert murmurlog.verify(tmp_path / "b").ok
    assert release.tables["query"]["query"].to_pylist() == ["shop"]
    assert release.certificate.tables["query"].parameters["pool_size"] == 1


@pytest.mark.parametrize(
    ("entry", "left"),
    [("www.shop.com", 0), ("SHOP", 0), ("www.sho*", 0), ("shop.com*", 0), ("http://www.other*", 1), ("shop.org/a", 1)],
)  # fmt: skip
def test_denied_entries_are_folded_as_queries_are(entry, left, log, tmp_path):
    (tmp_path / "deny.txt").write_text(f"{entry}\n")
    release = release_log(log, tmp_path / "b", deny=tmp_path / "deny.txt")
    assert release.tables["query"].num_rows == left


def test_queries_composed_of_keywords_are_refused_before_anything_is_booked(log, tmp_path):
    options = {"mechanism": "zealous", "via_keywords": True, "tables": ["keyword", "query"]}
    booked = {"ledger": tmp_path / "l.db", "source_name": "s", "new_source": True}
    with pytest.raises(UsageError, match="the query table is composed of .* leave --keys canonical out"):  # fmt: skip
        release_log(log, tmp_path / "b", **options, **booked)
    assert not (tmp_path / "l.db").exists()


@pytest.mark.parametrize("query", ["www.shop.com", "shop", "Shop .com", '"shop"'])
def test_lookups_fold_as_the_bundle_does(query, log, tmp_path):
    release = release_log(log, tmp_path / "shop")
    assert release.complete(query)[0][0] == "shop"
    bundles, hosts = ServedBundles([tmp_path / "shop"]), Hosts(port=8765)
    site = app.make(bundles, verifier=verify_bundle, hosts=hosts)
    client = TestClient(site, base_url="http://127.0.0.1:8765")
    assert client.get("/complete", params={"q": query}).json()["completions"]
    for match in (query, "sho?"):
        assert len(client.get("/top.tsv", params={"match": match}).text.splitlines()) == 2


def test_bundles_with_other_keys_are_neither_compared_nor_evaluated_together(log, tmp_path):
    release_log(log, tmp_path / "a")
    release_log(log, tmp_path / "b", keys="normalised")
    with pytest.raises(UsageError, match="only one of the bundles has canonical keys"):
        murmurlog.compare(tmp_path / "a", tmp_path / "b")
    both = {name: murmurlog.load(tmp_path / name) for name in "ab"}
    with pytest.raises(UsageError, match=r"read in different ways \(keys\)"):
        reading_of(ReadOptions(), both)
    assert reading_of(ReadOptions(), {"a": both["a"]}).keys == CANONICAL


# --- forged bundles -------------------------------------------------------------------------------


def failures_of_keys(out, keys, *queries):
    tables = {"query": make_table("query", *([query, 900, 3.0] for query in queries))}
    plain = make_certificate(tables).text
    publish(out, tables=tables, certificate=make_certificate(tables, text={**plain, "keys": keys}))
    return {check.name: check.message for check in murmurlog.verify(out).checks if not check.ok}


def test_a_key_that_is_not_canonical_is_seen(tmp_path):
    assert (
        failures_of_keys(tmp_path / "good", CANONICAL, "maps.example.com", "shop", "weather") == {}
    )
    assert failures_of_keys(tmp_path / "other", None, "shop", "www.shop.com") == {}
    for n, forged in enumerate(["www.shop.com", "shop.com", '"weather"', "été?"]):
        failed = failures_of_keys(tmp_path / f"forged{n}", CANONICAL, "shop", forged)
        assert "not a key by the rules canonical-1" in failed["table query"]
        with pytest.raises(BundleError, match="not a key by the rules"):
            _ = murmurlog.load(tmp_path / f"forged{n}").tables


def test_unknown_rules_fail(tmp_path):
    failures_of_keys(tmp_path / "b", CANONICAL, "shop")
    file = tmp_path / "b" / "privacy.json"
    for version, name, error in (
        ("99.1", "canonical-2", OtherVersion),
        (murmurlog.__version__, "canonical-2", BundleError),
        ("99.1", "", BundleError),
        ("99.1", 1, BundleError),
    ):
        stated = json.loads(file.read_text())
        stated["murmurlog"] = version
        stated["text"]["keys"] = name
        file.write_text(json.dumps(stated))
        seal(tmp_path / "b")
        for look in (murmurlog.verify, murmurlog.load):
            with pytest.raises(
                error, match=r"text\.keys must be one|the option --keys canonical-2"
            ):
                look(tmp_path / "b")


def test_keywords_are_words_of_keys_and_not_keys(tmp_path):
    tables = {"keyword": make_table("keyword", ["shop.com", 900, 3.0])}
    plain = make_certificate(tables).text
    certificate = make_certificate(tables, text={**plain, "keys": CANONICAL})
    publish(tmp_path / "b", tables=tables, certificate=certificate)
    assert murmurlog.verify(tmp_path / "b").ok
    assert isinstance(murmurlog.load(tmp_path / "b").tables["keyword"], pa.Table)

"""Keys of earlier releases: which bundles count, what they refuse, and what the release states."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from quick_cases import sample_cases

import murmurlog
from murmurlog.bundle.files import checksum_of
from murmurlog.bundle.keys import NORMALISER
from murmurlog.bundle.read import load, read_certificate
from murmurlog.bundle.write import publish
from murmurlog.errors import UsageError
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing import earlier
from murmurlog.publishing.ledger import Ledger

BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def rows(*queries, users=300, url="a.org/x"):
    return [
        {"user": f"u{n}", "time": f"2026-01-0{1 + n % 9} 00:00:00", "query": query, "url": url}
        for n in range(users)
        for query in queries
    ]


@pytest.fixture
def book(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=20, delta=1e-3)
    book.cap("app", epsilon=20, delta=1e-3)
    return book


@pytest.fixture
def release_rows(tmp_path, book, write_tsv):
    """Releases rows under the source web."""
    count = 0

    def make(some, out=None, columns=("user", "time", "query", "url"), **asked):
        nonlocal count
        count += 1
        log = write_tsv(some, name=f"log{count}.tsv", columns=columns)
        asked = {"tables": ["query"], "source_name": "web", **BUDGET, **asked}
        out = tmp_path / (out or f"bundle{count}")
        return murmurlog.release(str(log), out=out, ledger=book.path, **asked)

    return make


def keys(outcome, table="query"):
    return set(outcome.tables[table]["query"].to_pylist())


def failed_checks(report):
    return {check.name: check.message for check in report.checks if not check.ok}


def test_keys_of_earlier_releases_have_rows_whoever_holds_them(release_rows, book, tmp_path):
    first = release_rows(rows("weather", "maps"))
    assert keys(first) == {"weather", "maps"}
    second = release_rows(rows("news", "maps"), after=[first.out])
    assert keys(second) == {"weather", "maps", "news"}
    found = {row["query"]: row["users"] for row in second.tables["query"].to_pylist()}
    assert abs(found["weather"]) < 100 < found["maps"]
    assert second.certificate.after == {"releases": [first.release_id], "keys": {"query": 2}}
    third = release_rows(rows("buses"), after="ledger")
    assert keys(third) == {"weather", "maps", "news", "buses"}
    assert third.certificate.after["releases"] == [first.release_id, second.release_id]
    for each in (first, second, third):
        assert murmurlog.verify(each.out, ledger=book.path).ok
    page = (third.out / "report.html").read_text()
    assert "2 earlier releases of the same source published keys" in page
    assert "also if no user holds it now" in (third.out / "README.md").read_text()
    # A release without --after says nothing of it.
    assert "after" not in json.loads((first.out / "privacy.json").read_text())


@pytest.mark.slow
def test_of_a_series_only_the_bundles_that_are_needed_are_read(release_rows, monkeypatch):
    """The last bundle has the keys of those before it; of a table that it lacks, it has none."""
    first = release_rows(rows("weather"), tables=["query", "click"])
    second = release_rows(rows("maps"), after="ledger", tables=["query", "click"])
    third = release_rows(rows("news"), after="ledger")
    opened = []
    real = earlier.checksum_of
    monkeypatch.setattr(
        earlier, "checksum_of", lambda root: (opened.append(root.name), real(root))[1]
    )
    fourth = release_rows(rows("buses"), after="ledger")
    assert opened == [third.out.name]
    ids = [each.release_id for each in (first, second, third)]
    assert fourth.certificate.after == {"releases": ids, "keys": {"query": 3}}
    opened.clear()
    fifth = release_rows(rows("buses"), after="ledger", tables=["query", "click"])
    assert opened == [fourth.out.name, third.out.name, second.out.name]  # for its clicks
    assert fifth.certificate.after["keys"] == {"query": 4, "click": 2}
    assert keys(fifth, "click") == {"weather", "maps", "buses"}


def test_the_first_release_of_a_series_has_no_earlier_one(release_rows):
    first = release_rows(rows("weather"), after=["ledger"])
    assert first.certificate.after is None


def test_a_bundle_that_moved_counts_by_its_folder_only(release_rows, tmp_path, book):
    first = release_rows(rows("weather"))
    first.out.rename(tmp_path / "elsewhere")
    said = []
    second = release_rows(rows("news"), after="ledger", say=said.append)
    assert keys(second) == {"news"}
    assert any(line.startswith("warning: 1 bundle of this source moved") for line in said)
    third = release_rows(rows("news"), after=["ledger", tmp_path / "elsewhere"])
    assert third.certificate.after["releases"] == [first.release_id, second.release_id]
    assert keys(third) == {"news", "weather"}


def test_clicks_make_their_queries_known_and_wait_for_all_known_ones(release_rows):
    first = release_rows(rows("weather", "maps"), tables=["click"])
    assert keys(first, "click") == {"weather", "maps"}
    second = release_rows(rows("news", "maps"), tables=["query", "click"], after=[first.out])
    assert keys(second) == {"weather", "maps", "news"}
    assert second.certificate.after["keys"] == {"query": 2, "click": 2}
    found = {row["query"]: row["users"] for row in second.tables["click"].to_pylist()}
    assert set(found) == {"weather", "maps", "news"}
    assert found["maps"] > 100 > abs(found["weather"])
    third = release_rows(rows("maps"), tables=["query", "click"], after=[second.out])
    assert keys(third) == keys(third, "click") == {"weather", "maps", "news"}
    assert murmurlog.verify(third.out).ok


def test_pairs_of_earlier_releases(release_rows):
    walk = [
        {"user": f"u{n}", "time": f"2026-01-01 00:0{place}:00", "query": query}
        for n in range(300)
        for place, query in enumerate(("weather", "maps"))
    ]
    first = release_rows(walk, tables=["query", "pair"])
    second = release_rows(rows("news"), tables=["query", "pair", "left_out"], after=[first.out])
    assert second.tables["pair"].select(["query", "next_query"]).to_pylist() == [
        {"query": "weather", "next_query": "maps"}
    ]
    assert keys(second) == {"weather", "maps", "news"}


def test_what_may_not_be_published_today_is_no_longer_known(release_rows, tmp_path):
    first = release_rows(rows("weather", "maps", "call 0151 23456789"), screen=False)
    (tmp_path / "deny.txt").write_text("Maps\n")
    second = release_rows(rows("news", "maps"), after=[first.out], deny=tmp_path / "deny.txt")
    assert keys(first) == {"weather", "maps", "call 0151 23456789"}
    assert keys(second) == {"weather", "news"}
    assert second.certificate.after["keys"] == {"query": 1}


def test_canonical_keys_are_known_by_the_same_rules(release_rows):
    first = release_rows(rows("www.weather.com"), keys="canonical")
    second = release_rows(rows("weather", "news"), keys="canonical", after=[first.out])
    assert keys(first) == {"weather"}
    assert keys(second) == {"weather", "news"}
    assert second.certificate.after["keys"] == {"query": 1}


def test_keys_are_normalised_again_by_the_unicode_of_today(release_rows, book, monkeypatch):
    """A bundle of another version of Python: the rules are the same, their tables of characters are not."""
    first = release_rows(rows("weather", "maps"))
    name = NORMALISER.replace("unicode ", "unicode 9")
    monkeypatch.setattr("murmurlog.logs.reading.NORMALISER", name)

    def clean(text):  # another rule for one key, and nothing left of another
        return {"weather": "the weather", "maps": None}.get(text, text)

    monkeypatch.setattr(earlier, "cleaner", lambda keys: clean)
    second = release_rows(rows("news"), after=[first.out])
    assert keys(second) == {"the weather", "news"}
    monkeypatch.setattr("murmurlog.logs.reading.NORMALISER", "nfkc-casefold-3 (unicode 14.0.0)")
    assert_refused(
        release_rows, book, "text rules nfkc-casefold-2, not nfkc-casefold-3", after=[first.out]
    )


def test_a_pool_without_known_keys(release_rows, tmp_path):
    first = release_rows(rows("weather", "maps"))
    (tmp_path / "pool.txt").write_text("weather\n" + "".join(f"word {n}\n" for n in range(500)))
    (tmp_path / "known.txt").write_text("weather\nmaps\n")
    asked = {"after": [first.out], "fakes": 2}
    second = release_rows(rows("news"), pool=tmp_path / "pool.txt", **asked)
    claim = second.certificate.tables["query"]
    assert claim.parameters["pool_sizes"] == [500]  # not 501
    assert {"weather", "maps", "news"} <= keys(second)
    assert murmurlog.verify(second.out).ok
    third = release_rows(rows("news"), pool=tmp_path / "known.txt", after=[first.out])
    assert "pool_sizes" not in third.certificate.tables["query"].parameters


def test_values_of_a_public_column_are_part_of_known_keys(release_rows):
    asked = {"by": ("country", ["DE", "FR"]), "columns": ("user", "time", "query", "country")}
    first = release_rows([{**row, "country": "DE"} for row in rows("weather")], **asked)
    some = [{**row, "country": "FR"} for row in rows("news")]
    second = release_rows(some, after=[first.out], **asked)
    found = {(row["query"], row["country"]) for row in second.tables["query"].to_pylist()}
    assert found == {("weather", "DE"), ("news", "FR")}
    with pytest.raises(UsageError, match="another --by column, or other public values"):
        release_rows(rows("news"), after=[first.out])


# --- refusals -------------------------------------------------------------------------------------


def assert_refused(made, book, match, some=None, **asked):
    """A release that is refused before anything is booked."""
    before = book.path.read_bytes()
    with pytest.raises(UsageError, match=match):
        made(some or rows("news"), **asked)
    assert book.path.read_bytes() == before


def test_bundles_that_do_not_count_are_refused(release_rows, book, tmp_path, write_tsv):
    first = release_rows(rows("weather"))
    after = [first.out]
    assert_refused(release_rows, book, "no such folder", after=[tmp_path / "nothing"])
    assert_refused(release_rows, book, 'booked on source "web"', after=after, source_name="app")
    assert_refused(release_rows, book, "protects one user ", after=after, unit="user-day")
    assert_refused(release_rows, book, "protects one user ", after=after, neighbours="replace")
    assert_refused(
        release_rows, book, "--keys normalised, not canonical", after=after, keys="canonical"
    )
    assert_refused(
        release_rows,
        book,
        "--after is for rounds, not for threshold",
        after=after,
        mechanism="threshold",
    )
    mixed = {"query": "rounds", "click": "threshold"}
    assert_refused(
        release_rows,
        book,
        "not for threshold",
        after=after,
        tables=["query", "click"],
        mechanism=mixed,
    )
    log = str(write_tsv(rows("news"), name="other.tsv"))
    with pytest.raises(UsageError, match="give --ledger and --source"):
        murmurlog.release(log, out=tmp_path / "x", tables=["query"], after=after, **BUDGET)
    assert not (tmp_path / "x").exists()


def test_other_urls_matter_where_keys_hold_urls(release_rows, book):
    plain = release_rows(rows("weather"))
    release_rows(rows("news"), after=[plain.out], url="host")
    first = release_rows(rows("weather"), tables=["query", "click"])
    assert_refused(release_rows, book, "--url path, not host", after=[first.out], url="host")


def test_seeded_keys_are_refused(release_rows, book, tmp_path, write_tsv):
    """Earlier versions booked them."""
    log, out = str(write_tsv(rows("weather"))), tmp_path / "seeded"
    entropy = SeededEntropy(1)
    first = murmurlog.release(log, out=out, tables=["query"], entropy=entropy, **BUDGET)
    book.reserve("web", first.guarantee, release_id=first.release_id, what="x")
    book.commit(first.release_id, bundle="seeded", checksum=checksum_of(out))
    assert_refused(release_rows, book, "a known seed", after=[out])
    assert_refused(release_rows, book, "a known seed", after=["ledger"])


def test_unbooked_and_unpublished_bundles_are_refused(release_rows, book, tmp_path, write_tsv):
    log = str(write_tsv(rows("weather")))
    murmurlog.release(log, out=tmp_path / "free", tables=["query"], **BUDGET)
    assert_refused(release_rows, book, "has no entry", after=[tmp_path / "free"])
    first = release_rows(rows("weather"))
    book.reopen(first.release_id)
    assert_refused(release_rows, book, "not booked it as published", after=[first.out])
    book.commit(first.release_id)  # as versions before did
    assert_refused(release_rows, book, "did not record its checksum", after=[first.out])


def forge(out, to, **changes):
    """The bundle with another query, whose checksums and certificate are right in themselves."""
    bundle = load(out)
    table = bundle.tables["query"]
    swapped = table.set_column(0, "query", pa.array(["secret"] * table.num_rows))
    publish(to, tables={"query": swapped}, certificate=replace(bundle.certificate, **changes))


def test_forged_and_swapped_bundles_are_refused(release_rows, book, tmp_path):
    first, second = release_rows(rows("weather")), release_rows(rows("maps"))
    forge(first.out, tmp_path / "forged")
    assert murmurlog.verify(
        tmp_path / "forged", ledger=book.path
    ).ok  # no check of its own finds it
    assert_refused(release_rows, book, "not those that were published", after=[tmp_path / "forged"])
    # In the place of the real one: by name and by the ledger.
    first.out.rename(tmp_path / "kept")
    (tmp_path / "forged").rename(first.out)
    assert_refused(release_rows, book, "not those that were published", after=["ledger"])
    shutil.rmtree(first.out)
    forge(second.out, first.out, release_id=first.release_id)
    assert_refused(release_rows, book, "not those that were published", after=[first.out])
    # One file of the real one.
    shutil.rmtree(first.out)
    (tmp_path / "kept").rename(first.out)
    shutil.copy(second.out / "data" / "query.parquet", first.out / "data" / "query.parquet")
    assert_refused(release_rows, book, "not those that were published", after=[first.out])
    (first.out / "privacy.json").write_text("{")
    assert_refused(release_rows, book, "is damaged", after=[first.out])


def test_itemsets_of_earlier_releases_are_refused(release_rows, book):
    first = release_rows(rows("weather", "maps"), tables=["itemset"])
    assert_refused(release_rows, book, "leave itemset out", after=[first.out], tables=["itemset"])


@pytest.mark.parametrize(
    ("changes", "fails"),
    sample_cases(
        [
            ({"releases": []}, None),
            ({"releases": ["0" * 32] * 2}, "names a release twice"),
            ({"releases": ["0" * 32, "1" * 32]}, "names 2 releases, and 1 were booked before"),
            ({"keys": {"query": 99}}, "fewer than the 99 keys"),
            ({"keys": {"pair": 1}}, "a pair table that is not there"),
            ({"private": False}, "booked and private only"),
            ({"releases": ["0" * 32]}, "had not published before"),
        ],
        every=3,
    ),
)
def test_verify_finds_forged_statements(release_rows, book, tmp_path, changes, fails):
    first = release_rows(rows("weather"))
    second = release_rows(rows("news"), after=[first.out])
    certificate = read_certificate(second.out)
    stated = {
        **certificate.after,
        **{n: v for n, v in changes.items() if n in ("releases", "keys")},
    }
    certificate = replace(certificate, after=stated, private=changes.get("private", True))
    publish(tmp_path / "forged", tables=load(second.out).tables, certificate=certificate)
    if fails is None:
        with pytest.raises(murmurlog.BundleError, match="after.releases"):
            murmurlog.verify(tmp_path / "forged")
        return
    found = failed_checks(murmurlog.verify(tmp_path / "forged", ledger=book.path))
    assert any(fails in message for message in found.values()), found


def test_verify_holds_a_bundle_against_what_was_booked_before_it(release_rows, book, tmp_path):
    """Later releases change nothing, and neither they nor unpublished ones count as earlier."""
    first = release_rows(rows("weather"))
    cost = first.guarantee
    book.reserve("web", cost, release_id="f" * 32, what="stopped")
    second = release_rows(rows("news"), after=[first.out])
    third = release_rows(rows("maps"), after=[first.out])
    for release in (first, second, third):
        assert failed_checks(murmurlog.verify(release.out, ledger=book.path)) == {}
    certificate, tables = read_certificate(second.out), load(second.out).tables
    assert certificate.after["releases"] == [first.release_id]
    assert certificate.booked["releases_before"] == 2
    for name in (third.release_id, "f" * 32, second.release_id):
        stated = {**certificate.after, "releases": [name]}
        forged = tmp_path / f"forged {name}"
        publish(forged, tables=tables, certificate=replace(certificate, after=stated))
        faults = failed_checks(murmurlog.verify(forged, ledger=book.path))
        assert "had not published before" in faults["ledger"], name
    for number in (0, 1, 3):
        booked = {**certificate.booked, "releases_before": number}
        forged = tmp_path / f"forged {number}"
        publish(forged, tables=tables, certificate=replace(certificate, booked=booked))
        assert "ledger" in failed_checks(murmurlog.verify(forged, ledger=book.path)), number


# --- laws -----------------------------------------------------------------------------------------


def gather(engine, write_tsv, mechanism, some, known):
    entropy = SeededEntropy(1)
    log = read(find(str(write_tsv(some))), engine=engine, entropy=entropy)
    view = View(kind="query", way="first", earlier={"query": pa.table({"query": known})})
    return mechanism.gather(log, view, entropy=entropy)


def users_by_query(candidates):
    """How many users of the log have each query, exactly."""
    users = Counter()
    for rows in candidates.counted.results(lambda rows: rows):
        queries = rows.texts.take(rows.query.ids).to_pylist()
        pairs = set(zip(rows.unit.tolist(), rows.query.codes.tolist(), strict=True))
        users.update(queries[code] for _, code in pairs)
    return users


def test_known_keys_that_nobody_holds_have_the_noise_of_all_counts(engine, write_tsv):
    """Their counts are noise and nothing else: mean 0, and the standard deviation of the counts."""
    n = 4000
    mechanism = Rounds.solve(epsilon=1.0, delta=1e-6, d=10, count_per_user=n + 1)  # all in full
    known = [f"nobody {i}" for i in range(n)]
    held = gather(engine, write_tsv, mechanism, rows("maps", users=50), known)
    shown = mechanism.release(held, entropy=SeededEntropy(2))
    found = dict(zip(shown["query"].to_pylist(), shown["users"].to_pylist(), strict=True))
    assert set(known) <= set(found)
    users, sigma = np.array([found[key] for key in known]), mechanism.schedule.counts.noise(n + 1)
    assert abs(users.mean()) < 4 * sigma / np.sqrt(n)
    assert 0.95 * sigma < users.std() < 1.05 * sigma
    assert len(set(users.tolist())) > n / 4  # a draw for each


class KnownByCount(Rounds):
    """Takes keys as known because this log has many users of them."""

    def release(self, held, *, entropy):
        users = users_by_query(held)
        known = pa.table({"query": sorted(query for query, n in users.items() if n >= 5)})
        return super().release(replace(held, earlier=known), entropy=entropy)


class DroppedKeys(Rounds):
    """Drops known keys that nobody holds now."""

    def release(self, held, *, entropy):
        shown = super().release(held, entropy=entropy)
        there = pa.table({"query": sorted(users_by_query(held))})
        return shown.join(there, ["query"], join_type="left semi")


@pytest.mark.parametrize(
    ("kind", "tells"), [(Rounds, False), (KnownByCount, True), (DroppedKeys, True)]
)
def test_which_rows_there_are_does_not_tell_who_is_in_the_log(engine, write_tsv, kind, tells):
    """One user more, who asks what four others ask, and what nobody else asks."""
    solved = Rounds.solve(epsilon=1.0, delta=1e-6, d=10)
    mechanism = kind(
        **{name: getattr(solved, name) for name in ("schedule", "C", "reach", "focus")}
    )
    four = rows("rare", users=4)
    logs = (four, [*four, {"user": "v", "query": "rare"}, {"user": "v", "query": "known"}])
    shown = [
        {
            tuple(sorted(mechanism.release(held, entropy=SeededEntropy(n))["query"].to_pylist()))
            for n in range(5)
        }
        for held in (gather(engine, write_tsv, mechanism, log, ["known"]) for log in logs)
    ]
    assert (shown[0] != shown[1]) == tells
    if not tells:
        assert shown == [{("known",)}] * 2

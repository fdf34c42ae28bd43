"""Whole releases: a log in, a bundle out; what is in it, what never is, and what verify catches."""

import json
import math
import os
import re
import shutil
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path

import frictionless
import mlcroissant
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import murmurlog
from murmurlog.auditing.verify import verify
from murmurlog.bundle import keys as text
from murmurlog.bundle import scratch as scratch_module
from murmurlog.bundle import write as write_module
from murmurlog.bundle.files import sums
from murmurlog.bundle.write import publish
from murmurlog.errors import BundleError, MurmurlogError, Refused, UsageError
from murmurlog.evaluation.evaluate import reading_of
from murmurlog.logs.options import ReadOptions
from murmurlog.privacy import sampler
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.release import release

# So small a delta that one of the hundreds of single queries shows in one run of a billion.
BUDGET = {"epsilon": 4.0, "delta": 1e-10}
CAP = {"epsilon": 20, "delta": 1e-3}
SECRET = "the secret illness of user 17"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """300 users who share some queries and clicks; one of them has a secret."""
    rows = []
    for i in range(300):
        for j, query in enumerate(("Weather", "news", "maps", f"own query {i}")):
            url = f"http://www.{query.lower().split()[0]}.example/p?session={i}" if j < 3 else None
            rows.append(
                {"user": f"customer-{i}", "time": f"2026-01-0{j + 1}", "query": query, "url": url}
            )
    rows.append(
        {"user": "customer-17", "time": "2026-01-09", "query": SECRET, "url": "http://s.example"}
    )
    path = tmp_path_factory.mktemp("private-place") / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture(scope="module")
def bundle(log, tmp_path_factory):
    """A bundle of that log, with its ledger beside it. Do not change it: copy it."""
    folder = tmp_path_factory.mktemp("released")
    Ledger(folder / "ledger.db").cap("shop", **CAP)
    release(
        str(log),
        out=folder / "bundle",
        ledger=folder / "ledger.db",
        source_name="shop",
        users=1000,
        mechanism={"query": "threshold", "click": "rounds"},
        about={"title": "Shop searches", "publisher": "A Shop", "license": "CC-BY-4.0"},
        **BUDGET,
    )
    return folder / "bundle"


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle, tmp_path / "bundle")


@pytest.fixture(params=["own", "another"])
def forgeable(request, bundle, tmp_path):
    """A copy of a bundle, and one of another version."""
    if request.param == "own":
        return shutil.copytree(bundle, tmp_path / "bundle")
    loaded = murmurlog.load(bundle)
    made = replace(loaded.certificate, murmurlog="0.0.9")
    publish(tmp_path / "bundle", tables=loaded.tables, certificate=made)
    assert verify(tmp_path / "bundle").ok
    return tmp_path / "bundle"


def failed_checks(report):
    return {check.name: check.message for check in report.checks if not check.ok}


def reseal(root):
    """Makes the checksums right again, as a forger would."""
    lines = [f"{digest}  {name}\n" for name, digest in sums(root).items()]
    (root / "SHA256SUMS").write_text("".join(lines))


# --- what is in a bundle --------------------------------------------------------------------------


def test_a_release_is_verified_booked_and_says_what_it_is(bundle):
    report = verify(bundle, ledger=bundle.parent / "ledger.db")
    assert report.ok, failed_checks(report)
    assert {c.name for c in report.checks} >= {"files", "guarantee", "table query", "ledger"}
    loaded = murmurlog.load(bundle)
    assert loaded.guarantee.epsilon == 4.0
    assert loaded.guarantee.delta <= 1e-10
    query = loaded.tables["query"].to_pylist()
    assert {row["query"] for row in query} == {"weather", "news", "maps"}
    for row in query:
        assert abs(row["users"] - 300) < 8 * row["users_stderr"]
        assert row["reliable"]
    clicks = {(row["query"], row["url"]) for row in loaded.tables["click"].to_pylist()}
    assert clicks == {(q, f"{q}.example/p") for q in ("weather", "news", "maps")}


def test_nothing_of_the_log_is_in_the_bundle_but_what_was_published(bundle, log):
    exact_users, exact_rows = "300", "1201"
    stated = json.loads((bundle / "privacy.json").read_text())["tables"].values()
    noisy = {str(n) for claim in stated for n in claim.get("histogram", ())}
    for table in (pq.read_table(path) for path in (bundle / "data").iterdir()):
        noisy |= {str(n) for column in table.columns for n in column.to_pylist()}
    for path in bundle.rglob("*"):
        if path.is_dir():
            continue
        content = path.read_bytes()
        for private in (
            SECRET,
            "illness",
            "customer-",
            "own query",
            "session=",
            str(log),
            "private-place",
        ):
            assert private.encode() not in content, (path.name, private)
        if path.suffix != ".parquet":
            numbers = content.decode().replace(",", " ").replace('"', " ").split()
            # A noisy number may happen to be the exact one.
            assert exact_users not in numbers or exact_users in noisy
            assert exact_rows not in numbers or exact_rows in noisy


def test_certificate_states_unit_guarantee_and_parameters(bundle):
    stated = json.loads((bundle / "privacy.json").read_text())
    assert stated["guarantee"]["unit"] == "user"
    assert stated["guarantee"]["epsilon"] == 4.0
    assert stated["declared_users"] == 1000
    assert stated["delta_times_users"] == pytest.approx(1e-7, rel=0.05)
    assert set(stated["assumptions"]) == {"A0", "A1", "A5", "A6", "A7", "A8", "A9"}
    assert stated["tables"]["query"]["parameters"]["per_user"] == 10
    assert stated["noise"]["entropy"] == "operating system"
    booked = stated["ledger"]
    assert (booked["source"], booked["releases_before"], booked["rule"]) == ("shop", 0, "filter")
    assert booked["cap"] == {**CAP, "keys_share": 0.4}


def test_tables_are_sorted_typed_and_carry_their_privacy(bundle):
    file = pq.ParquetFile(bundle / "data" / "query.parquet")
    counts = ["users", "users_low", "users_high", "users_stderr", "reliable"]
    assert file.schema_arrow.names == ["query", *counts]
    assert file.schema_arrow.field("query").type == pa.string()
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    said = {k.decode(): v.decode() for k, v in file.schema_arrow.metadata.items()}
    assert said["dp.unit"] == "user"
    assert float(said["dp.epsilon"]) == 4.0
    users = file.read()["users"].to_pylist()
    assert users == sorted(users, reverse=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib's, inside mlcroissant
def test_croissant_frictionless_and_registry_read_the_cards(bundle):
    dataset = mlcroissant.Dataset(jsonld=str(bundle / "croissant.json"))
    assert not dataset.metadata.issues.errors
    assert not dataset.metadata.issues.warnings
    assert len(list(dataset.records("query"))) == 3
    report = frictionless.validate(str(bundle / "datapackage.json"))
    assert report.valid, report.flatten(["note"])
    deployment = yaml.safe_load((bundle / "deployment.yaml").read_text())
    loss = deployment["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == "user"
    assert loss["privacy_parameters"]["delta"] == pytest.approx(1e-10, rel=0.05)
    front = (bundle / "README.md").read_text().split("---\n")[1]
    assert [c["config_name"] for c in yaml.safe_load(front)["configs"]] == ["query", "click"]


def test_a_bundle_depends_on_its_tables_not_on_their_order(bundle, tmp_path):
    loaded = murmurlog.load(bundle)
    turned = {
        name: table.take(list(range(table.num_rows))[::-1]) for name, table in loaded.tables.items()
    }
    publish(tmp_path / "again", tables=turned, certificate=loaded.certificate)
    assert sums(tmp_path / "again") == sums(bundle)


# --- what verify catches --------------------------------------------------------------------------


def edit_certificate(root, change):
    path = root / "privacy.json"
    stated = json.loads(path.read_text())
    change(stated)
    path.write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
    reseal(root)


def test_a_changed_byte_is_corruption(copy):
    data = copy / "data" / "query.parquet"
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    report = verify(copy)
    assert report.exit_code == 6
    assert failed_checks(report) == {"files": "the checksum is wrong: data/query.parquet"}


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        (
            lambda c: c["guarantee"].update(epsilon=1.0),
            "guarantee",
            "more than the stated epsilon 1,",
        ),
        (lambda c: c["tables"]["query"]["guarantee"].update(delta=1e-20), "guarantee", "has delta"),
        (
            lambda c: c["tables"]["query"]["parameters"].update(scale=99.0),
            "guarantee",
            "are not those",
        ),
        (lambda c: c["tables"]["query"].update(rows=2), "table query", "has 3 rows, not 2"),
        (lambda c: c["assumptions"].pop("A1"), "guarantee", "needs assumptions"),
        (
            lambda c: c.update(users_in_log=300),
            "certificate",
            "unknown keys: users_in_log",
        ),
        (lambda c: c["tables"]["query"].update(true_users=300), "certificate", "holds more"),
        (lambda c: c.update(private=False), "noise", "NOT private"),
    ],
)
def test_a_forged_certificate_fails(forgeable, change, check, message):
    edit_certificate(forgeable, change)
    report = verify(forgeable)
    assert report.exit_code == 1
    assert re.search(message, failed_checks(report)[check])


def rewrite(root, name, change):
    path = root / "data" / f"{name}.parquet"
    table = pq.ParquetFile(path).read()
    pq.write_table(change(table), path)
    reseal(root)


def with_users(table, users):
    return table.set_column(1, "users", pa.array(users, pa.int64()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.append_column("user", pa.array(["customer-17"] * 3)), "has columns"),
        (lambda t: t.take([2, 1, 0]), "canonical order"),
        (lambda t: with_users(t, [900, 800, 1]), "holds a count of 1"),
        (lambda t: t.set_column(0, "query", pa.array(["a", "b", "C"])), "order|not normalised"),
        (lambda t: t.set_column(0, "query", pa.array(["a", "a", "a"])), "a key repeats|order"),
        (lambda t: t.replace_schema_metadata({"dp.epsilon": "0.1"}), "are not the certificate"),
        (lambda t: t.set_column(5, "reliable", pa.array([False] * 3)), "`reliable` is not what"),
    ],
)
def test_a_forged_table_fails(forgeable, change, message):
    rewrite(forgeable, "query", change)
    report = verify(forgeable)
    assert not report.ok
    assert re.search(message, failed_checks(report)["table query"])


def test_missing_extra_and_linked_files_fail(copy):
    (copy / "notes.txt").write_text("raw counts")
    assert failed_checks(verify(copy)) == {"files": "not part of a bundle: notes.txt"}
    (copy / "notes.txt").unlink()
    os.symlink("/etc/hostname", copy / "link")
    assert "is a link" in failed_checks(verify(copy))["files"]
    (copy / "link").unlink()
    (copy / "README.md").unlink()
    assert failed_checks(verify(copy)) == {"files": "missing: README.md"}


def test_what_is_no_bundle_is_said(tmp_path, copy):
    with pytest.raises(BundleError, match="is no bundle: there is no privacy.json"):
        verify(tmp_path)
    (copy / "privacy.json").write_text("[" * 100_000)
    with pytest.raises(BundleError, match="privacy.json"):
        verify(copy)
    (copy / "privacy.json").write_text('{"format": 2}')
    with pytest.raises(BundleError, match="damaged"):
        verify(copy)
    (copy / "privacy.json").write_text('{"format": "other"}')
    with pytest.raises(BundleError, match="not of the format"):
        verify(copy)


def test_a_bundle_that_is_not_in_the_ledger_fails(copy, tmp_path):
    Ledger(tmp_path / "empty.db").cap("other", epsilon=1, delta=1e-6)
    report = verify(copy, ledger=tmp_path / "empty.db")
    assert "no entry carries the id" in failed_checks(report)["ledger"]
    with pytest.raises(UsageError, match="there is no ledger"):
        verify(copy, ledger=tmp_path / "none.db")


def test_a_bundle_booked_too_cheaply_fails(copy, bundle, tmp_path):
    cheap = tmp_path / "cheap.db"
    shutil.copy(bundle.parent / "ledger.db", cheap)
    with Ledger(cheap)._transaction(write=True) as db:
        db.execute("UPDATE entries SET epsilon = 0.1")
    assert "the entry books epsilon 0.1" in failed_checks(verify(copy, ledger=cheap))["ledger"]


# --- which rows count -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """200 users of three countries, some with a denied query, an e-mail address, or another year."""
    rows = []
    for i in range(200):
        country = ("DE", "FR", "XX")[i % 3]
        for j, query in enumerate(("maps", "Secret Project", "mail me@example.com", "news")):
            rows.append(
                {
                    "user": f"u{i}",
                    "time": f"202{5 + (j == 3)}-01-0{j + 1}",
                    "query": query,
                    "country": country,
                }
            )
    path = tmp_path_factory.mktemp("places") / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def queries_of(log, out, **options):
    release(str(log), out=out, tables=["query"], **(BUDGET | options))
    report = verify(out)
    assert report.ok, failed_checks(report)
    return murmurlog.load(out).tables["query"].to_pylist()


def test_rows_are_restricted_by_time_and_by_value(places, tmp_path):
    late = queries_of(places, tmp_path / "late", since="2026-01-01", screen=False)
    assert {row["query"] for row in late} == {"news"}
    early = queries_of(places, tmp_path / "early", until="2025-01-02")
    assert {row["query"] for row in early} == {"maps"}
    german = queries_of(places, tmp_path / "german", where={"country": "DE"})
    assert (
        max(row["users"] for row in german) < 150
    )  # of 67, where all are 200; the noise has an sd of 18
    stated = murmurlog.load(tmp_path / "german").certificate.text
    assert stated["where"] == {"country": "DE"}
    assert murmurlog.load(tmp_path / "late").certificate.text["since"] == "2026-01-01"


def test_a_public_column_becomes_part_of_the_key(places, tmp_path):
    rows = queries_of(places, tmp_path / "b", by=("country", ["DE", "FR", "IT"]))
    found = {(row["query"], row["country"]) for row in rows}
    assert found == {(q, c) for q in ("maps", "news", "secret project") for c in ("DE", "FR")}
    assert all(abs(row["users"] - 67) < 8 * row["users_stderr"] for row in rows)
    certificate = murmurlog.load(tmp_path / "b").certificate
    assert certificate.by.values == ("DE", "FR", "IT")
    edit_certificate(tmp_path / "b", lambda c: c["by"].update(values=["DE", "IT"]))
    assert "not declared public" in failed_checks(verify(tmp_path / "b"))["table query"]


def test_denied_queries_and_personal_data_are_not_published(places, tmp_path):
    deny = tmp_path / "deny.txt"
    deny.write_text("SECRET *\n")
    shown = {row["query"] for row in queries_of(places, tmp_path / "b", deny=deny)}
    assert shown == {"maps", "news"}
    text = murmurlog.load(tmp_path / "b").certificate.text
    assert text["deny"] is True
    assert "email" in text["screen"]
    assert b"secret" not in (tmp_path / "b" / "privacy.json").read_bytes().lower().replace(
        b"is secret", b""
    )
    plain = {row["query"] for row in queries_of(places, tmp_path / "c", screen=False)}
    assert plain == {"maps", "news", "secret project", "mail me@example.com"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": ("country", [])}, "needs its public values"),
        ({"by": ("country", ["DE", "DE"])}, "each once"),
        ({"by": ("query", ["maps"])}, "cannot use a column called 'query'"),
        ({"by": ("planet", ["Mars"])}, "planet"),
        ({"where": {"planet": "Mars"}}, "planet"),
        ({"since": "yesterday"}, "yesterday"),
        ({"deny": "none.txt"}, "none.txt"),
        ({"patterns": "none.toml"}, "none.toml"),
    ],
)
def test_bad_restrictions_are_named(places, tmp_path, options, message):
    with pytest.raises(MurmurlogError, match=message):
        release(str(places), out=tmp_path / "b", **BUDGET, **options)
    assert list(tmp_path.iterdir()) == []


# --- the order of things --------------------------------------------------------------------------


def test_a_release_of_nothing_is_valid(log, tmp_path):
    outcome = release(str(log), out=tmp_path / "b", epsilon=0.01, delta=1e-9)
    assert outcome.rows == {"query": 0, "click": 0}
    assert verify(tmp_path / "b").ok


def test_keys_alone(log, tmp_path):
    release(str(log), out=tmp_path / "b", tables=["query"], set_only=True, **BUDGET)
    table = murmurlog.load(tmp_path / "b").tables["query"]
    assert table.column_names == ["query"]
    assert table["query"].to_pylist() == ["maps", "news", "weather"]
    assert verify(tmp_path / "b").ok


@pytest.mark.slow
def test_every_table_unit_and_bound_can_be_released(log, tmp_path):
    for i, options in enumerate(
        (
            {
                "tables": ["keyword", "query", "click"],
                "shares": {"keyword": 0.2, "query": 0.5, "click": 0.3},
            },
            {"unit": "user-day", "per_user": 2},
            {"unit": "user-week", "bound": "random"},
            {"neighbours": "replace", "per_user": {"query": 3, "click": 2}},
            {"noise": "geometric", "url": "host"},
            {"letters": {"T": "60", "b": "5"}, "tables": ["query"], "per_user": 5},
        )
    ):
        out = tmp_path / str(i)
        budget = {} if "letters" in options else BUDGET
        outcome = release(str(log), out=out, **budget, **options)
        report = verify(out)
        assert report.ok, failed_checks(report)
        assert sum(outcome.rows.values()) > 0
        assert outcome.guarantee.unit == options.get("unit", "user")


def test_letters_give_the_guarantee_that_follows(log, tmp_path):
    outcome = release(
        str(log), out=tmp_path / "b", tables=["query"], per_user=5, letters={"K": "59", "b": "5"}
    )
    assert outcome.guarantee.epsilon == 1.0
    assert (
        str(outcome.plans["query"].mechanism) == "threshold(noise=geometric, d=5, scale=5.0, T=60)"
    )


def test_a_seeded_release_is_marked_and_fails_verify(log, tmp_path):
    release(str(log), out=tmp_path / "b", entropy=SeededEntropy(1), **BUDGET)
    for card in ("README.md", "croissant.json", "datapackage.json", "deployment.yaml"):
        assert "NOT PRIVATE" in (tmp_path / "b" / card).read_text()
    assert "operating system" not in (tmp_path / "b" / "deployment.yaml").read_text()
    assert failed_checks(verify(tmp_path / "b")) == {
        "noise": "the noise was drawn from a known seed: this is NOT private"
    }


def test_two_releases_differ(log, tmp_path):
    users = []
    for name in "ab":
        release(str(log), out=tmp_path / name, epsilon=1.0, delta=1e-4, tables=["query"])
        users.append(murmurlog.load(tmp_path / name).tables["query"]["users"].to_pylist())
    assert users[0] != users[1]


def test_a_dry_run_reads_and_books_nothing(log, tmp_path):
    Ledger(tmp_path / "l.db").cap("shop", **CAP)
    outcome = release(
        str(log),
        out=tmp_path / "b",
        ledger=tmp_path / "l.db",
        source_name="shop",
        dry_run=True,
        **BUDGET,
    )
    assert outcome.rows == {}
    assert not (tmp_path / "b").exists()
    assert Ledger(tmp_path / "l.db").entries() == []
    release(
        str(log),
        out=tmp_path / "b",
        ledger=tmp_path / "new.db",
        source_name="x",
        new_source=True,
        dry_run=True,
    )
    assert not (tmp_path / "new.db").exists()


def test_delta_is_held_against_declared_users_only(log, tmp_path):
    with pytest.raises(Refused, match="at least 1/users for the declared 10000 users"):
        release(str(log), out=tmp_path / "b", users=10_000, epsilon=4.0, delta=1e-4)
    release(str(log), out=tmp_path / "b", users=10_000, accept_delta=True, epsilon=4.0, delta=1e-4)
    # 300 users in the log, delta > 1/300, nothing declared: the log's own number refuses nothing.
    release(str(log), out=tmp_path / "c", epsilon=4.0, delta=0.01)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epsilon": 0}, UsageError, "epsilon must be a positive number"),
        ({"epsilon": -1}, UsageError, "epsilon must be a positive number"),
        ({"epsilon": math.nan}, UsageError, "epsilon must be a finite number"),
        ({"delta": 0}, UsageError, "delta must lie between"),
        ({"delta": 1e-30}, UsageError, "below what the noise sampler can certify"),
        ({"tables": ["query", "query"]}, UsageError, "names a table twice"),
        ({"tables": ["pages"]}, UsageError, "unknown table 'pages'"),
        ({"tables": []}, UsageError, "lists no table"),
        ({"per_user": 0}, UsageError, "at least 1"),
        ({"per_user": {"session": 3}}, UsageError, "names session"),
        ({"per_user": 3, "mechanism": "hong"}, UsageError, "hong keeps no number of items a unit"),
        (
            {"per_user": 3, "mechanism": "threshold(d=2, scale=9, T=80)"},
            UsageError,
            "its own bound",
        ),
        (
            {"per_user": {"query": 3, "session": 2}, "tables": ["query", "session"]},
            UsageError,
            "--per-user has no effect on session: leave it out",
        ),
        (
            {"per_user": 3, "mechanism": "zealous", "letters": {"m": "2", "lam": "4", "tau2": "9"}},
            UsageError,
            "--per-user and --set m are the same bound",
        ),
        (
            {"count": "rows", "mechanism": "korolova", "letters": {"b": "4", "K": "9"}},
            UsageError,
            "--set says all there is to choose: leave --count out",
        ),
        ({"shares": {"query": 1.0}}, UsageError, "must name every table once"),
        ({"shares": {"query": 0.9, "click": 0.3}}, UsageError, "add up to 1"),
        ({"mechanism": "magic"}, UsageError, "unknown mechanism 'magic'"),
        ({"noise": "white"}, UsageError, "unknown noise 'white'"),
        ({"unit": "planet"}, UsageError, "unknown unit 'planet'"),
        ({"unit": "user-day", "neighbours": "replace"}, UsageError, "whole users only"),
        ({"engine": "abacus"}, UsageError, "--engine 'abacus' is not known: use duckdb or spark"),
        ({"engine": "duckdv"}, UsageError, "Did you mean 'duckdb'?"),
        ({"about": {"colour": "red"}}, UsageError, "--about has no colour"),
        ({"source_name": "shop"}, UsageError, "give --ledger too"),
        ({"ledger": "ledger.db"}, UsageError, "--ledger needs --source"),
        ({"users": 0}, UsageError, "--users must be at least 1"),
        ({"bound": "last"}, UsageError, "--bound must be"),
        ({"url": "domain"}, UsageError, "--url must be one of"),
        ({"memory": "lots"}, UsageError, "--memory 'lots' is not a size"),
    ],
)
def test_bad_parameters_leave_nothing_behind(log, tmp_path, monkeypatch, options, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        release(str(log), out="bundle", **({"epsilon": 1.0, "delta": 1e-5} | options))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_target_is_refused_before_anything_is_reserved(log, tmp_path):
    out = tmp_path / "b"
    out.mkdir()
    book = Ledger(tmp_path / "l.db")
    with pytest.raises(UsageError, match="exists: choose another folder"):
        release(str(log), out=out, ledger=book.path, source_name="shop", new_source=True, **BUDGET)
    assert book.entries() == []
    with pytest.raises(UsageError, match="there is no folder"):
        release(str(log), out=tmp_path / "no" / "b", **BUDGET)


def test_a_spent_budget_is_refused_and_nothing_is_written(log, tmp_path):
    book = Ledger(tmp_path / "l.db")
    book.cap("shop", epsilon=6, delta=1e-9)
    options = {"ledger": book.path, "source_name": "shop", **BUDGET}
    release(str(log), out=tmp_path / "first", **options)
    with pytest.raises(
        Refused, match=r"of the noise budget \(\d+ % is left\) .*\(1 release so far\)"
    ):
        release(str(log), out=tmp_path / "second", **options)
    assert not (tmp_path / "second").exists()
    assert len(book.entries()) == 1


@pytest.mark.parametrize(
    ("tables", "mechanism", "more"),
    [
        (["query", "click", "left_out"], "rounds", {}),
        (["query", "click"], "threshold", {}),
        (["query"], "pool", {"pool": "pool.txt"}),
        (["query"], "rounds", {"pool": "pool.txt", "fakes": 1}),
        (["session"], "session-tree", {"gap": 10**6}),
        (["log"], "synthetic", {}),
    ],
)
def test_no_noise_is_drawn_before_its_cost_is_reserved(
    log, tmp_path, monkeypatch, tables, mechanism, more
):
    """Every draw of the sampler is noted; a ledger that refuses at the last moment sees none."""
    (tmp_path / "pool.txt").write_text("maps\nweather\nnobody asks this\n", encoding="utf-8")
    options = {name: tmp_path / value if name == "pool" else value for name, value in more.items()}
    events = []

    def note(event, real):
        def call(*arguments, **keywords):
            events.append(event)
            return real(*arguments, **keywords)

        return call

    for name in ("_draw_batch", "_bits"):  # all noise is made by these two
        monkeypatch.setattr(sampler, name, note("drawn", getattr(sampler, name)))
    reserve = Ledger.reserve
    monkeypatch.setattr(Ledger, "reserve", note("reserved", reserve))

    Ledger(tmp_path / "l.db").cap("s", **CAP)

    def run(name):
        booking = {"epsilon": 2, "ledger": tmp_path / "l.db", "source_name": "s"}
        return murmurlog.release(
            log, out=tmp_path / name, tables=tables, mechanism=mechanism, **booking, **options
        )

    run("first")
    assert events[0] == "reserved"
    assert events.count("reserved") == 1
    assert "drawn" in events
    events.clear()

    def refuse(*_, **__):
        raise Refused("spent by another release meanwhile")

    monkeypatch.setattr(Ledger, "reserve", refuse)
    with pytest.raises(Refused, match="meanwhile"):
        run("second")
    assert events == []


def test_a_failed_write_leaves_the_budget_spent_and_no_half_bundle(log, tmp_path, monkeypatch):
    book = Ledger(tmp_path / "l.db")
    book.cap("shop", **CAP)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("murmurlog.bundle.write.pq.write_table", full)
    with pytest.raises(MurmurlogError, match=r"No space left.*stays booked as [0-9a-f]{32}"):
        release(
            str(log),
            out=tmp_path / "b",
            ledger=book.path,
            source_name="shop",
            **BUDGET,
        )
    assert [entry.state for entry in book.entries()] == ["reserved"]
    assert [path.name for path in tmp_path.iterdir()] == ["l.db"]


def lock_ledger(path):
    """A lock that the test's end lets go."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    return db


def make_read_only(path):
    """SQLite does not write a file whose format is newer than it knows, not even for root."""
    with path.open("r+b") as file:
        file.seek(18)
        file.write(b"\x09")


def replace_ledger(path):
    """A sound ledger without bookings in the place of the first."""
    path.unlink()
    Ledger(path).cap("shop", **CAP)


LEDGER_FAULTS = {
    "gone": (lambda path: path.unlink(), "is missing"),
    "empty": (lambda path: path.write_bytes(b""), "is an empty file"),
    "locked": (lock_ledger, "locked"),
    "read-only": (make_read_only, "readonly|read-only"),
    "another": (replace_ledger, "has no entry"),
}


@pytest.mark.parametrize("fault", LEDGER_FAULTS)
def test_a_booking_that_cannot_be_committed_publishes_nothing(log, tmp_path, monkeypatch, fault):
    spoil, message = LEDGER_FAULTS[fault]
    book, saved, held = Ledger(tmp_path / "l.db"), tmp_path / "backup", []
    book.cap("shop", **CAP)
    (tmp_path / "out").mkdir()
    real = write_module._set_file_times

    def marks(*given):  # everything is written, nothing is in its place yet
        shutil.copy(book.path, saved)
        held.append(spoil(book.path))
        real(*given)

    monkeypatch.setattr(write_module, "_set_file_times", marks)
    monkeypatch.setattr("murmurlog.publishing.ledger_file.WAIT_SECONDS", 0.1)
    with pytest.raises(Refused, match=rf"(?s)({message}).*Nothing was published.*stays booked as"):
        release(
            str(log),
            out=tmp_path / "out" / "b",
            ledger=book.path,
            source_name="shop",
            **BUDGET,
        )
    assert list((tmp_path / "out").iterdir()) == []
    for each in held:
        if isinstance(each, sqlite3.Connection):
            each.close()
    shutil.copy(saved, book.path)
    assert [(e.state, e.epsilon) for e in book.entries()] == [("reserved", 4.0)]


def test_a_bundle_is_committed_before_it_appears(log, tmp_path, monkeypatch):
    book, out, seen = Ledger(tmp_path / "l.db"), tmp_path / "b", []
    book.cap("shop", **CAP)
    real = Ledger.commit
    monkeypatch.setattr(
        Ledger, "commit", lambda *given, **more: (seen.append(out.exists()), real(*given, **more))
    )
    release(str(log), out=out, ledger=book.path, source_name="shop", **BUDGET)
    assert seen == [False]
    assert [entry.state for entry in book.entries()] == ["committed"]


@pytest.mark.parametrize("step", ["before it is moved", "after it is moved"])
def test_a_bundle_that_cannot_be_moved_is_not_committed(log, tmp_path, monkeypatch, step):
    """Whether the move fails or only its record on the disk: nothing appears, and the message is true."""
    book, out = Ledger(tmp_path / "l.db"), tmp_path / "b"
    book.cap("shop", **CAP)
    real = scratch_module._to_disk

    def to_disk(path):
        if path == out.parent:
            raise OSError(5, "Input/output error")
        real(path)

    def rename(*_):
        raise OSError(5, "Input/output error")

    if step.startswith("before"):
        monkeypatch.setattr(Path, "rename", rename)
    else:
        monkeypatch.setattr(scratch_module, "_to_disk", to_disk)
    with pytest.raises(MurmurlogError, match="nothing was published; its budget stays booked as"):
        release(str(log), out=out, ledger=book.path, source_name="shop", **BUDGET)
    assert [(entry.state, entry.epsilon) for entry in book.entries()] == [("reserved", 4.0)]
    assert [path.name for path in tmp_path.iterdir()] == ["l.db"]


def use_version_1(monkeypatch):
    """Releases are made by the rules for text of the first version."""
    monkeypatch.setattr("murmurlog.logs.reading.NORMALISER", next(iter(text.VERSIONS)))
    first = partial(text.normalise, version=1)
    monkeypatch.setattr("murmurlog.logs.cleaning.cleaner", lambda _: first)


def test_a_bundle_of_the_first_rules_for_text_is_judged_by_them(tmp_path, write_tsv, monkeypatch):
    rows = [
        {"user": f"u{n}", "query": query}
        for n in range(300)
        for query in ("Weather", "Wea\u034fther", "wea\u200dther")
    ]
    path = str(write_tsv(rows, columns=("user", "query")))
    with monkeypatch.context() as older:
        use_version_1(older)
        release(path, out=tmp_path / "old", **BUDGET)
    assert verify(tmp_path / "old").ok, failed_checks(verify(tmp_path / "old"))
    old = murmurlog.load(tmp_path / "old")
    assert old.certificate.text["normaliser"].startswith("nfkc-casefold-1 ")
    assert old.tables["query"].num_rows == 3
    assert old.complete("WEA\u034f")[0][0] == "wea\u034fther"

    release(path, out=tmp_path / "new", **BUDGET)
    assert verify(tmp_path / "new").ok
    new = murmurlog.load(tmp_path / "new")
    assert new.certificate.text["normaliser"].startswith("nfkc-casefold-2 ")
    assert new.tables["query"]["query"].to_pylist() == ["weather"]
    assert new.complete("WEA\u034f")[0][0] == "weather"

    # What passes by the older rules does not pass for the newer ones.
    file = tmp_path / "old" / "privacy.json"
    file.write_text(file.read_text().replace("nfkc-casefold-1", "nfkc-casefold-2"))
    reseal(tmp_path / "old")
    assert "not normalised" in failed_checks(verify(tmp_path / "old"))["table query"]


def test_a_bad_log_costs_nothing(tmp_path):
    (tmp_path / "log.csv").write_text("user,query\n,\n")
    book = Ledger(tmp_path / "l.db")
    with pytest.raises(MurmurlogError, match="no usable rows"):
        release(
            str(tmp_path / "log.csv"),
            out=tmp_path / "b",
            ledger=book.path,
            source_name="x",
            new_source=True,
        )
    assert book.entries() == []


@pytest.mark.parametrize("chosen", [{}, {"url": "id"}])
def test_documents_whose_ids_differ_in_case_stay_apart(tmp_path, chosen):
    rows = [
        {"user": i, "query": "lamp", "doc": ("aBcD", "abcd", "SKU 12/A")[i % 3]} for i in range(900)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    outcome = release(
        tmp_path / "log.parquet", out=tmp_path / "bundle", tables=["click"], **chosen, **BUDGET
    )
    loaded = murmurlog.load(outcome.out)
    users = {row["url"]: row["users"] for row in loaded.tables["click"].to_pylist()}
    assert users == {id: pytest.approx(300, abs=60) for id in ("aBcD", "abcd", "SKU 12/A")}
    assert loaded.certificate.text["url"] == chosen.get("url", "path")
    assert reading_of(ReadOptions(), {"bundle": loaded}).url == chosen.get("url", "path")
    assert verify(outcome.out).ok
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert ("a clicked document, as the log names it" in card) == bool(chosen)

"""Releases by a part of their source's cap: what they spend, what their certificates state, and forgeries."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import murmurlog
from murmurlog.bundle.read import read_certificate
from murmurlog.bundle.write import publish
from murmurlog.errors import Refused, UsageError
from murmurlog.mechanisms import parse
from murmurlog.privacy import Amounts, amounts_of, limits_of, loss_of_part
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.plan import Part, losses_of, plan_tables

GOLDEN = Path(__file__).parents[1] / "golden"
LIMITS = limits_of(3.0, 1e-5)


@pytest.fixture
def log(write_tsv):
    rows = [
        {"user": f"u{i}", "time": "2026-01-01 00:00:00", "query": "weather", "url": "example.org"}
        for i in range(400)
    ]
    return str(write_tsv(rows))


@pytest.fixture
def book(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", epsilon=3, delta=1e-5, pure=0)
    return book


def release(log, book, out, **asked):
    asked = {"tables": ["query"], "source_name": "web", **asked}
    return murmurlog.release(log, out=out, ledger=book.path, **asked)


def messages(report):
    return {check.name: check.message for check in report.checks if not check.ok}


@pytest.mark.slow
@pytest.mark.parametrize("tables", [["query"], ["query", "click"], ["query", "click", "left_out"]])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_tables_spend_their_part_and_no_more(tables, neighbours):
    part = Part.of(LIMITS, 1 / 12, delta=1e-5)
    plans, total = plan_tables(tables, part=part, neighbours=neighbours)
    losses = losses_of((each.mechanism, each.guarantee) for each in plans.values())
    squares, keys = math.fsum(x.mu**2 for x in losses), math.fsum(x.keys for x in losses)
    assert 0.99 * part.loss.mu**2 < squares <= part.loss.mu**2
    assert (0.9 if "left_out" not in tables else 0.8) * part.loss.keys < keys <= part.loss.keys
    # What it costs alone, at its part of delta; by sums twelve of these would cost three times the cap.
    assert 0.7 < total.epsilon < 1
    assert total.delta <= 1e-5 / 12


def test_parts_of_the_cap_are_booked_and_certified(log, book, tmp_path):
    for n in range(3):
        made = release(log, book, tmp_path / str(n), of_cap=1 / 3, tables=["query", "click"])
        assert murmurlog.verify(tmp_path / str(n), ledger=book.path).ok
    stated = made.certificate.booked
    assert stated["cap"] == {"epsilon": 3.0, "delta": 1e-5, "keys_share": 0.4}
    assert stated["rectangle"] == LIMITS._asdict()
    assert stated["releases_before"] == 2
    assert not {"epsilon_before", "delta_before"} & set(stated)
    assert Amounts(**stated["part"]) == book.find(made.release_id).amounts
    assert stated["part"]["mu2"] == pytest.approx(LIMITS.mu2 / 3, rel=0.01)
    page = (tmp_path / "2" / "report.html").read_text()
    assert "stay below the cap of epsilon 3 and delta 1e-05; this one takes 33.4 %" in page
    with pytest.raises(Refused, match="of the noise budget"):
        release(log, book, tmp_path / "more", of_cap=0.1)
    assert not (tmp_path / "more").exists()


def test_other_releases_book_what_is_known_of_them(log, book, tmp_path):
    plain = release(
        log, book, tmp_path / "a", mechanism="threshold", noise="geometric", epsilon=0.2, delta=1e-7
    )
    made = release(log, book, tmp_path / "b", epsilon=0.5, delta=1e-6)
    for name in ("a", "b"):
        assert murmurlog.verify(tmp_path / name, ledger=book.path).ok
    assert book.find(made.release_id).mu2 == pytest.approx(
        parse(str(made.plans["query"].mechanism)).loss().mu ** 2, rel=2e-9
    )
    assert book.find(plain.release_id).keys <= 1.1e-7


def test_a_converted_source_certifies_its_remainder(log, tmp_path):
    """murmurlog 0.2.0 converted it, after a release of epsilon 1 that it had booked by sums."""
    book = Ledger(Path(shutil.copyfile(GOLDEN / "ledger-6.db", tmp_path / "old.db")))
    made = release(log, book, tmp_path / "b", source_name="converted", of_cap=0.5)
    assert murmurlog.verify(tmp_path / "b", ledger=book.path).ok
    assert made.certificate.booked["spent_by_sum"]["epsilon"] == 1.0
    book.cap("converted", epsilon=4, delta=1e-5, reason="more")
    release(log, book, tmp_path / "c", source_name="converted", of_cap=0.1)
    for name in ("b", "c"):
        assert murmurlog.verify(tmp_path / name, ledger=book.path).ok


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"epsilon": 1.0}, "takes the place of --epsilon"),
        ({"delta": 1e-6}, "takes the place of --epsilon"),
        ({"source_name": "wbe"}, "no source 'wbe'"),
        ({"mechanism": "korolova"}, "korolova cannot: give --epsilon and --delta"),
        ({"mechanism": "threshold", "noise": "geometric"}, "chooses Gaussian noise itself"),
        (
            {"mechanism": "threshold(noise=gaussian, d=5, scale=9.0, T=99)"},
            "cannot: give --epsilon",
        ),
        ({"source_name": "no keys"}, "keeps nothing of delta for keys"),
        ({"of_cap": 1.5}, "must lie above 0 and be at most 1"),
    ],
)
def test_what_a_part_of_the_cap_cannot_be_is_said_before_anything_is_booked(
    asked, message, log, book, tmp_path
):
    book.cap("no keys", epsilon=3, delta=1e-5, keys_share=0.0, pure=0)
    with pytest.raises(UsageError, match=message):
        release(log, book, tmp_path / "out", **{"of_cap": 0.5, **asked})
    assert book.entries() == []


def test_a_part_needs_a_ledger(log, tmp_path):
    with pytest.raises(UsageError, match="give --ledger and --source"):
        murmurlog.release(log, out=tmp_path / "out", of_cap=0.5)


def test_noise_from_a_known_seed_is_refused(log, book, tmp_path):
    for dry_run in (False, True):
        with pytest.raises(Refused, match="known seed protects nobody.* Nothing was booked"):
            release(
                log, book, tmp_path / "out", epsilon=0.5, delta=1e-6, dry_run=dry_run,
                entropy=SeededEntropy(1),
            )  # fmt: skip
    assert book.entries() == []
    assert not (tmp_path / "out").exists()


FORGED = {
    "a smaller part": ("part", "mu2", lambda x: x * 0.9),
    "fewer keys": ("part", "keys", lambda x: x * 0.9),
    "an exact sampler": ("part", "distance", lambda x: 0.0),
    "a pure part": ("part", "pure", lambda x: 0.1),
    "a larger rectangle": ("rectangle", "mu2", lambda x: x * 1.1),
    "a smaller rectangle": ("rectangle", "mu2", lambda x: x * 0.9),
    "more keys allowed": ("rectangle", "keys", lambda x: x * 1.1),
    "another distance": ("rectangle", "distance", lambda x: x * 1.1),
    "a lower cap": ("cap", "epsilon", lambda x: 2.5),
    "a higher cap": ("cap", "epsilon", lambda x: 3.5),
    "a lower delta": ("cap", "delta", lambda x: x / 2),
    "another share": ("cap", "keys_share", lambda x: 0.3),
    "something spent before": ("spent_by_sum", "epsilon", lambda x: 0.5),
}


@pytest.fixture(scope="module")
def honest_bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honest")
    path = folder / "log.csv"
    path.write_text("user,query\n" + "".join(f"u{i},weather\n" for i in range(400)))
    book = Ledger(folder / "ledger.db")
    book.cap("web", epsilon=3, delta=1e-5, pure=0)
    release(str(path), book, folder / "bundle", of_cap=0.5)
    return folder / "bundle", book


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_number_fails(forgery, honest_bundle, tmp_path):
    bundle, _ = honest_bundle
    certificate = read_certificate(bundle)
    group, name, change = FORGED[forgery]
    booked = json.loads(json.dumps(certificate.booked))
    tables = {"query": pq.read_table(bundle / "data" / "query.parquet")}
    publish(tmp_path / "same", tables=tables, certificate=certificate)
    assert murmurlog.verify(tmp_path / "same").ok
    booked[group][name] = change(booked[group][name])
    publish(tmp_path / "out", tables=tables, certificate=replace(certificate, booked=booked))
    assert set(messages(murmurlog.verify(tmp_path / "out"))) == {"budget"}


@pytest.mark.parametrize(
    ("amount", "changes"),
    [
        ("mu2", {"epsilon": 0.5}),
        ("keys", {"keys_share": 0.01}),
        ("distance", {"distance": 1e-30}),
    ],
)
def test_a_part_that_exceeds_a_right_rectangle_fails(amount, changes, honest_bundle, tmp_path):
    """Cap and rectangle agree, and the part is what the mechanisms book: it is too large for them."""
    bundle, _ = honest_bundle
    certificate = read_certificate(bundle)
    tables = {"query": pq.read_table(bundle / "data" / "query.parquet")}
    cap = certificate.booked["cap"] | {n: x for n, x in changes.items() if n != "distance"}
    limits = limits_of(**(cap | changes))
    part = certificate.booked["part"]
    assert [name for name, most in limits._asdict().items() if part[name] > most] == [amount]
    booked = certificate.booked | {"cap": cap, "rectangle": limits._asdict()}
    publish(tmp_path / "out", tables=tables, certificate=replace(certificate, booked=booked))
    failed = messages(murmurlog.verify(tmp_path / "out"))
    assert set(failed) == {"budget"}
    assert "exceeds the rectangle" in failed["budget"]


def test_geometric_draws_booked_by_mu_as_earlier_versions_did_verify(log, tmp_path):
    """Of a cap with a pure part, draws may be booked as either; half of the noise is neither."""
    book = Ledger(tmp_path / "pure.db")
    book.cap("web", epsilon=3, delta=1e-5)
    cost = {"epsilon": 0.5, "delta": 1e-6}
    release(log, book, tmp_path / "a", mechanism="threshold", noise="geometric", per_user=1, **cost)
    certificate = read_certificate(tmp_path / "a")
    tables = {"query": pq.read_table(tmp_path / "a" / "data" / "query.parquet")}
    part = certificate.booked["part"]
    assert part["pure"] > 0.4
    claim = certificate.tables["query"]
    (loss,) = losses_of([(parse(claim.mechanism), claim.guarantee)])
    by_mu = amounts_of(loss, distance=part["distance"])
    large = limits_of(19.0, 1e-5, pure=1.0)
    cap = certificate.booked["cap"] | {"epsilon": 19.0}
    for name, amounts, fails in (
        ("mu", by_mu, []),
        ("less", by_mu._replace(mu2=by_mu.mu2 / 2), ["budget"]),
    ):
        booked = certificate.booked | {
            "cap": cap, "rectangle": large._asdict(), "part": amounts._asdict()
        }  # fmt: skip
        publish(tmp_path / name, tables=tables, certificate=replace(certificate, booked=booked))
        assert list(messages(murmurlog.verify(tmp_path / name))) == fails


def test_a_booking_that_the_ledger_does_not_have_fails(honest_bundle, tmp_path):
    bundle, book = honest_bundle
    certificate = read_certificate(bundle)
    tables = {"query": pq.read_table(bundle / "data" / "query.parquet")}
    # A rectangle of another cap, right in itself; a booking by sums; and another number of releases.
    other = {"epsilon": 3.5, "delta": 1e-5, "keys_share": 0.4}
    sums = {"source": "web", "releases_before": 0, "epsilon_before": 0.0, "delta_before": 0.0}
    forged = [
        certificate.booked | {"cap": other, "rectangle": limits_of(3.5, 1e-5)._asdict()},
        sums,
        certificate.booked | {"releases_before": 1},
    ]
    said = ("never had the cap", "another rule of the source", "states 1 earlier releases")
    for n, (booked, message) in enumerate(zip(forged, said, strict=True)):
        out = tmp_path / str(n)
        publish(out, tables=tables, certificate=replace(certificate, booked=booked))
        assert murmurlog.verify(out).ok
        failed = messages(murmurlog.verify(out, ledger=book.path))
        assert list(failed) == ["ledger"]
        assert message in failed["ledger"]


def test_a_bundle_that_was_booked_by_sums_verifies_against_its_ledger(honest_bundle, tmp_path):
    """As murmurlog 0.2.0 wrote it; its source may be converted by now, or refused."""
    bundle, _ = honest_bundle
    certificate = read_certificate(bundle)
    tables = {"query": pq.read_table(bundle / "data" / "query.parquet")}
    book = Ledger(Path(shutil.copyfile(GOLDEN / "ledger-6.db", tmp_path / "old.db")))
    _, second = book.entries("sums")
    with book._transaction(write=True) as db:
        db.execute(
            "UPDATE entries SET release_id = ?, epsilon = 3, delta = 1e-5 WHERE release_id = ?",
            (certificate.release_id, second.release_id),
        )
    booked = {"source": "sums", "releases_before": 1, "epsilon_before": 1.0, "delta_before": 1e-6}
    publish(tmp_path / "a", tables=tables, certificate=replace(certificate, booked=booked))
    assert murmurlog.verify(tmp_path / "a", ledger=book.path).ok
    booked |= {"epsilon_before": 0.5}
    publish(tmp_path / "b", tables=tables, certificate=replace(certificate, booked=booked))
    assert "with epsilon 0.5; the ledger" in messages(
        murmurlog.verify(tmp_path / "b", ledger=book.path)
    )["ledger"]  # fmt: skip


def test_a_part_of_the_limits_leaves_room_for_rounding():
    loss = loss_of_part(LIMITS, 1.0)
    assert loss.mu**2 < LIMITS.mu2
    assert loss.keys < LIMITS.keys

"""Forged cards and certificates: cards of this version are compared byte by byte, others not at all."""

import json

import pytest
from certificates import make_certificate, make_table
from hostile_bundles import seal

import murmurlog
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.write import publish

OTHER = "0.0.9"  # a version that never was
CARDS = ("README.md", "report.html", "croissant.json", "datapackage.json", "deployment.yaml")
TABLES = {
    "query": make_table("query", ["weather", 900, 3.0], ["maps", 300, 3.0]),
    "click": make_table("click", ["weather", "a.example", 500, 3.0]),
}


@pytest.fixture
def bundle(tmp_path):
    out = tmp_path / "bundle"
    certificate = make_certificate(TABLES, about={"title": "Shop"}, declared_users=10_000)
    publish(out, tables=TABLES, certificate=certificate)
    assert murmurlog.verify(out).ok
    return out


def change_version(out):
    path = out / "privacy.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "murmurlog": OTHER}))
    seal(out)


@pytest.mark.parametrize("card", CARDS)
def test_a_card_of_this_version_fails_where_one_byte_differs(bundle, card):
    path = bundle / card
    honest = path.read_bytes()
    for forged in (
        b"",
        honest + b" ",
        honest.replace(b"weather", b"leather", 1),
        honest[1:] + b"x",
    ):
        if forged == honest:
            continue
        path.write_bytes(forged)
        seal(bundle)
        (failed,) = [check for check in murmurlog.verify(bundle).checks if not check.ok]
        assert (failed.name, failed.message) == (
            "cards",
            f"{card} is not what the certificate gives",
        )


def test_cards_of_another_version_are_not_checked_and_verify_says_so(bundle):
    (bundle / "README.md").write_text("# epsilon 0.001\n")
    change_version(bundle)
    report = murmurlog.verify(bundle)
    assert report.ok
    assert report.checks[-1].message.startswith(f"not checked: murmurlog {OTHER} wrote them")


# Nothing but the cards repeats these statements of an owner.
STATEMENTS = [
    lambda c: c["about"].update(title="Another"),
    lambda c: c["about"].update(publisher="Another"),
    lambda c: c.update(published="2020-01-01"),
    lambda c: c.update(bound="random"),
    lambda c: c.update(unprotected=["per-user 7"]),
    lambda c: c.update(declared_users=7, delta_times_users=c["guarantee"]["delta"] * 7),
    lambda c: c["text"].update(url="host"),
    lambda c: c["text"].update(screen=["email"]),
    lambda c: c["text"].update(normaliser="another"),
    lambda c: c["assumptions"].update(A0="Nothing is assumed."),
    lambda c: c.update(ledger={"source": "s", "releases_before": 3, "epsilon_before": 1.0,
                               "delta_before": 0.0}),
]  # fmt: skip
CLAIMS = [
    lambda c: c.update(release_id="0" * 32),
    lambda c: c["guarantee"].update(epsilon=c["guarantee"]["epsilon"] * 2),
    lambda c: c["guarantee"].update(epsilon=0.1),
    lambda c: c["tables"]["query"]["guarantee"].update(epsilon=0.1),
    lambda c: c["tables"]["query"].update(mechanism="k-query(k=5)"),
    lambda c: c["tables"]["query"].update(rows=1),
    lambda c: c["tables"]["query"].update(count="rows"),
    lambda c: c["tables"]["query"].update(true_users=300),
    lambda c: c.update(users_in_log=300),
    lambda c: c["assumptions"].pop("A1"),
    lambda c: c["noise"].update(method="dice"),
    lambda c: c["noise"].update(entropy="known seed"),
    lambda c: c.update(private=False),
    lambda c: c.update(composition="none"),
]  # fmt: skip


@pytest.mark.parametrize("version", ["own", OTHER])
def test_a_forged_certificate_fails_whoever_wrote_it(bundle, version):
    if version == OTHER:
        change_version(bundle)
    path = bundle / "privacy.json"
    honest = path.read_text()
    changes = CLAIMS if version == OTHER else [*CLAIMS, *STATEMENTS]
    for number, change in enumerate(changes):
        stated = json.loads(honest)
        change(stated)
        path.write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
        seal(bundle)
        assert not murmurlog.verify(bundle).ok, number


def test_a_certificate_of_another_version_may_word_its_assumptions(tmp_path, monkeypatch):
    as_json = Certificate.as_json

    def worded(self):
        stated = as_json(self)
        return {**stated, "assumptions": {name: f"As {name}." for name in stated["assumptions"]}}

    with monkeypatch.context() as patch:
        patch.setattr(Certificate, "as_json", worded)
        certificate = make_certificate(TABLES, murmurlog=OTHER)
        publish(tmp_path / "out", tables=TABLES, certificate=certificate)
        publish(tmp_path / "own", tables=TABLES, certificate=make_certificate(TABLES))
    report = murmurlog.verify(tmp_path / "out")
    assert report.ok, report
    assert f"of murmurlog {OTHER}, was not checked" in report.checks[1].message
    assert not murmurlog.verify(tmp_path / "own").ok

"""Bundles of this format verify, load and are served; those of other versions are named as such."""

import json
from pathlib import Path

import pytest
from command import run
from hostile_bundles import put
from starlette.testclient import TestClient

import murmurlog
from murmurlog.bundle.certificate_schema import FORMAT
from murmurlog.bundle.schema import AT_LEAST, IN_LOG
from murmurlog.cli.serve import verify_bundle
from murmurlog.errors import OtherVersion
from murmurlog.web import app
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Hosts

HOME = Path(__file__).parents[1] / "golden"
GOLDEN = sorted(HOME.glob("bundle-*"))
every = pytest.mark.parametrize("bundle", GOLDEN, ids=lambda path: path.name)
OTHER_VERSIONS = {
    "format-1": "bundle format 1",
    "clipped-counts": "clipped counts",
    "unit-session": "the unit session",
    "unit-row": "the unit row",
    "mechanism-hybrid": "the mechanism hybrid",
    "mechanism-profiles": "the mechanism profiles",
    "option-consistent": "the option --consistent",
    "option-planned-by": "the option --planned-by",
}


def test_there_are_bundles_of_the_present_format_only():
    assert {path.name.split("-")[1] for path in GOLDEN} == {str(FORMAT)}


@every
def test_a_golden_bundle_verifies(bundle):
    report = murmurlog.verify(bundle)
    assert report.ok, [check for check in report.checks if not check.ok]


@every
def test_a_golden_bundle_loads(bundle):
    loaded = murmurlog.load(bundle)
    assert all(table.num_rows > 0 for table in loaded.tables.values())
    assert loaded.complete("w", k=3)
    assert loaded.total("query").value > 0
    meanings = {claim.meaning for claim in loaded.certificate.tables.values()}
    assert meanings == ({IN_LOG, AT_LEAST} if bundle.name == "bundle-2-mixed" else {IN_LOG})


@every
def test_the_page_serves_a_golden_bundle(bundle):
    page = app.make(ServedBundles([bundle]), verifier=verify_bundle, hosts=Hosts())
    with TestClient(page, base_url="http://127.0.0.1") as client:
        for address in ("/", "/?q=weather", "/top", "/privacy?check=now"):
            assert client.get(address).status_code == 200, address
        assert client.get("/verify").json()["ok"]


def readers(root, tmp_path):
    """All that read a bundle."""
    return (
        lambda: murmurlog.verify(root),
        lambda: murmurlog.load(root),
        lambda: ServedBundles([root]),
        lambda: murmurlog.export(root, to="csv", out=tmp_path / "out"),
    )


def test_each_kept_certificate_of_another_version_is_known():
    assert {path.name for path in (HOME / "other-versions").iterdir()} == set(OTHER_VERSIONS)


@pytest.mark.parametrize("name", OTHER_VERSIONS)
def test_what_this_version_cannot_check_is_neither_invalid_nor_verified(name, tmp_path):
    message = (
        f"made by {OTHER_VERSIONS[name]}, which this version cannot check: use murmurlog 0.2.0"
    )
    for read in readers(HOME / "other-versions" / name, tmp_path):
        with pytest.raises(OtherVersion, match=message):
            read()
    done = run("verify", HOME / "other-versions" / name)
    assert done.returncode == 2
    assert f"the bundle '{name}' was {message}" in done.stderr


def certificate_with(folder, *changes, **more):
    """A sound certificate with other values at some places."""
    stated = json.loads((GOLDEN[0] / "privacy.json").read_text())
    for at, value in changes:
        stated = put(stated, at, value)
    (folder / "privacy.json").write_text(json.dumps({**stated, **more}))
    return folder


@pytest.mark.parametrize(
    ("at", "value", "part"),
    [
        (("guarantee", "unit"), "household", "the unit household"),
        (("tables", "query", "guarantee", "unit"), "device", "the unit device"),
        (("tables", "query", "mechanism"), "dice(d=3)", "the mechanism dice"),
        (("tables", "query", "mechanism"), "k-dice:3", "the mechanism k-dice"),
        (("text", "keys"), "canonical 9", "the option --keys canonical 9"),
        (("consistent",), True, "the option --consistent"),
        (("planned_by",), "a profile", "the option --planned-by"),
        (("format",), FORMAT + 1, f"bundle format {FORMAT + 1}"),
    ],
)
def test_a_part_of_any_other_version_is_named(tmp_path, at, value, part):
    for version, wanted in (
        ("0.1.0", "murmurlog 0.2.0"),
        ("0.2.0a2", "murmurlog 0.2.0"),
        ("99.1", "murmurlog 99.1"),
        ("a fork", "the version that made it"),
    ):
        certificate_with(tmp_path, (at, value), murmurlog=version)
        for read in readers(tmp_path, tmp_path):
            with pytest.raises(OtherVersion, match=f"by {part}, which .*: use {wanted}$"):
                read()


def test_a_damaged_certificate_is_damaged_whatever_it_was_made_by(tmp_path):
    certificate_with(tmp_path, (("guarantee", "unit"), "row"), (("guarantee", "epsilon"), "many"))
    with pytest.raises(murmurlog.BundleError, match="guarantee.epsilon must"):
        murmurlog.load(tmp_path)


def test_a_part_that_its_own_version_lacks_is_damage(tmp_path):
    changes = (("tables", "query", "mechanism"), "threehold(d=3)")
    certificate_with(tmp_path, changes, murmurlog=murmurlog.__version__)
    with pytest.raises(murmurlog.BundleError, match="it must name what murmurlog .* has"):
        murmurlog.load(tmp_path)


@pytest.mark.parametrize("number", [0, 1, True, 2.0, "2", "murmurlog-bundle-2", None])
def test_what_is_no_number_of_a_format_is_refused(tmp_path, number):
    (tmp_path / "privacy.json").write_text(json.dumps({"format": number}))
    with pytest.raises(murmurlog.BundleError, match="not of the format of a bundle"):
        murmurlog.load(tmp_path)

"""Bundles of every format verify, load and are served for ever."""

import json
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import murmurlog
from murmurlog.bundle.certificate_schema import FORMAT, FORMATS
from murmurlog.bundle.schema import AT_LEAST, IN_LOG
from murmurlog.cli.serve import planned, verified
from murmurlog.web import app
from murmurlog.web.bundles import Shelf
from murmurlog.web.guard import Hosts

GOLDEN = sorted(path for path in (Path(__file__).parents[1] / "golden").iterdir() if path.is_dir())
every = pytest.mark.parametrize("bundle", GOLDEN, ids=lambda path: path.name)


def _format(bundle):
    return int(bundle.name.split("-")[1])


def test_there_is_a_bundle_of_each_format():
    assert {_format(path) for path in GOLDEN} == set(FORMATS)


@every
def test_a_golden_bundle_verifies(bundle):
    report = murmurlog.verify(bundle)
    assert report.ok, [check for check in report.checks if not check.ok]


@every
def test_a_golden_bundle_loads(bundle):
    loaded = murmurlog.load(bundle)
    assert loaded.certificate.format == _format(bundle)
    assert all(table.num_rows > 0 for table in loaded.tables.values())
    assert loaded.complete("w", k=3)
    assert loaded.total("query").value > 0
    meanings = [claim.meaning for claim in loaded.certificate.tables.values()]
    assert meanings == ([IN_LOG, AT_LEAST] if bundle.name == "bundle-2-intervals" else [None, None])


@every
def test_the_page_serves_a_golden_bundle(bundle):
    page = app.make(Shelf([bundle]), planner=planned, verifier=verified, hosts=Hosts())
    with TestClient(page, base_url="http://127.0.0.1") as client:
        for address in ("/", "/?q=weather", "/top", "/privacy?check=now"):
            assert client.get(address).status_code == 200, address
        assert client.get("/verify").json()["ok"]


def test_a_format_of_a_later_version_is_named(tmp_path):
    stated = json.loads((GOLDEN[-1] / "privacy.json").read_text())
    for made, named in (("9.1", "murmurlog 9.1 or a later"), ("\x1b", "the version that made it")):
        later = {**stated, "format": FORMAT + 1, "murmurlog": made, "new key": 1}
        (tmp_path / "privacy.json").write_text(json.dumps(later))
        message = f"of format {FORMAT + 1}, .* formats up to {FORMAT}: use {re.escape(named)}"
        for read in (murmurlog.verify, murmurlog.load):
            with pytest.raises(murmurlog.BundleError, match=message):
                read(tmp_path)


@pytest.mark.parametrize("number", [0, 1, True, 2.0, "2", "murmurlog-bundle-2", None, 10**400])
def test_what_is_no_number_of_a_format_is_refused(tmp_path, number):
    (tmp_path / "privacy.json").write_text(json.dumps({"format": number}))
    with pytest.raises(murmurlog.BundleError, match="not of the format of a bundle|of format a"):
        murmurlog.load(tmp_path)

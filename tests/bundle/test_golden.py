"""Bundles of earlier versions verify and load for ever."""

from pathlib import Path

import pytest

import murmurlog

GOLDEN = sorted(path for path in (Path(__file__).parents[1] / "golden").iterdir() if path.is_dir())


@pytest.mark.parametrize("bundle", GOLDEN, ids=lambda path: path.name)
def test_a_bundle_of_an_earlier_version_verifies_and_loads(bundle):
    report = murmurlog.verify(bundle)
    assert report.ok, [check for check in report.checks if not check.ok]
    assert murmurlog.load(bundle).tables["query"].num_rows > 0

"""Releases in a row: booked before any noise, with the keys of the earlier bundle and no others."""

import pytest
from quick_cases import sample_cases
from series_replay import check_series
from twins import TWINS

BROKEN = {twin.name: twin for twin in TWINS}
ANSWERS = {
    "a ledger that books after the release": "noise is drawn before the release is booked",
    "histogram's loss not counted": "booked with less noise than its certificate states",
    "earlier keys only where somebody asks them": "60 of 120 earlier keys have no row",
    "earlier keys taken from the log": "passed in no round and are no earlier keys",
    "earlier keys without noise": "counts of earlier keys at d2",
}


def test_an_honest_series_has_no_faults(tmp_path):
    assert check_series(tmp_path) == []


@pytest.mark.parametrize("name", sample_cases(ANSWERS, every=2))
def test_a_broken_series_is_caught(name, tmp_path):
    with BROKEN[name].broken():
        found = check_series(tmp_path)
    assert any(ANSWERS[name] in what for what in found), found

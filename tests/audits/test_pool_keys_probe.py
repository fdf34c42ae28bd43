"""Keys of a pool that nobody holds are published as often as the printed text says; fewer are caught."""

import pool_keys_probe
import pytest
from blind_twins import BLIND
from pool_keys_probe import NOBODY, SOME, USERS, check_pool_keys

BROKEN = {twin.name: twin for twin in BLIND}


def check_honest_and_limited(folder):
    assert check_pool_keys(folder) == []
    with BROKEN["pool: never more fakes than accepted"].broken():
        (found,) = check_pool_keys(folder)
    assert found.startswith(f"pool: of {len(NOBODY)} keys like 'nobody a' with 0 users")


@pytest.mark.slow
def test_an_honest_pool_passes_and_a_limit_on_fakes_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_keys_probe, "RELEASES", 60)
    monkeypatch.setattr(pool_keys_probe, "STAGE_ALPHA", 1e-5)  # few releases prove less
    check_honest_and_limited(tmp_path)


@pytest.mark.slow
def test_the_same_at_the_size_of_an_audit(tmp_path):
    check_honest_and_limited(tmp_path)


def test_every_class_has_its_own_threshold():
    assert pool_keys_probe._classes("pool(d=1, b=1.0, N=32, T=4)") == [
        (NOBODY, 0, 4),
        (SOME, USERS, 4),
    ]


def test_a_choice_of_keys_that_is_not_uniform_is_caught(tmp_path, monkeypatch):
    always = [dict.fromkeys(NOBODY[:n], 3) for n in (0, 1, 2, 1) * 100]
    monkeypatch.setattr(pool_keys_probe, "_published", lambda *_: always)
    assert any("show more often" in what for what in check_pool_keys(tmp_path))

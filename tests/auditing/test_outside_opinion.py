"""The script for a second opinion: what it samples, and that it says why it skips."""

import subprocess
import sys
from pathlib import Path

import outside_opinion
import pytest

ROOT = Path(__file__).parents[2]


def test_without_the_tool_it_says_so_and_how_to_install_it():
    script = ROOT / "audits" / "outside_opinion.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "skipped: DP-Auditorium is not there" in done.stdout
    assert "No module named 'dp_auditorium'" in done.stdout
    assert "pip install ./differential-privacy/python/dp_auditorium" in done.stdout
    assert outside_opinion.missing("no-such-python") is not None


@pytest.mark.slow
@pytest.mark.parametrize("case", outside_opinion.CASES, ids=lambda case: case.name)
def test_samples_are_what_is_published_of_neighbours(case, tmp_path, monkeypatch):
    monkeypatch.setattr(outside_opinion, "COPIES", 300)
    users, (one, other) = outside_opinion.sample(case, 1.0, tmp_path, 900)
    assert len(one) == len(other) == 900
    assert 0.3 < (one > 0).mean() < 0.95
    assert one.mean() > other.mean()
    # Next to no noise: the threshold alone decides.
    assert outside_opinion.sample(case, 1e-3, tmp_path, 900)[0] == users
    _, (one, other) = outside_opinion.sample(case, 1e-3, tmp_path, 900)
    assert (one > 0).all()
    assert not other.any()

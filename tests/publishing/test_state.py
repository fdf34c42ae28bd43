"""Releases from a state: month by month they make the tables that all logs together make."""

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from thinning import thinned

import murmurlog
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy.sampler import SeededEntropy

BUDGET = {"epsilon": 4.0, "delta": 1e-4}
MONTHS = ("2026-03", "2026-04", "2026-05")


@pytest.fixture(scope="module")
def months(tmp_path_factory):
    """A generated log, cut at the ends of months."""
    folder = tmp_path_factory.mktemp("logs")
    write(invent(rows=40_000, seed=5), folder / "log.parquet")
    log = pq.read_table(folder / "log.parquet")
    (folder / "log.parquet").unlink()
    days = pc.strftime(log["time"], "%Y-%m")
    for month in MONTHS:
        pq.write_table(log.filter(pc.equal(days, month)), folder / f"{month}.parquet")
    return folder


def tables(made):
    return {kind: table.to_pylist() for kind, table in made.tables.items()}


@pytest.mark.parametrize(
    "window", thinned([{"select_from": "all", "count_from": "2026-05-01"}, {}], every=2)
)
def test_a_release_from_a_state_equals_one_from_the_logs(months, tmp_path, window):
    state = tmp_path / "state"
    for month in MONTHS:
        kept = murmurlog.release(
            months / f"{month}.parquet", out=tmp_path / month, state=state,
            entropy=SeededEntropy(3), **BUDGET, **window,
        )  # fmt: skip
    whole = murmurlog.release(
        str(months / "*.parquet"),
        out=tmp_path / "whole",
        entropy=SeededEntropy(3),
        **BUDGET,
        **window,
    )
    assert tables(kept) == tables(whole)
    assert min(len(rows) for rows in tables(kept).values()) > 10


def test_windows_decide_which_files_of_the_state_are_read(months, tmp_path):
    state = tmp_path / "state"
    for month in MONTHS[:2]:
        murmurlog.release(
            months / f"{month}.parquet",
            out=tmp_path / month,
            state=state,
            entropy=SeededEntropy(3),
            **BUDGET,
        )
    for path in state.glob("*.parquet"):
        path.write_bytes(b"damaged")
    window = {"select_from": "2026-05-01", "count_from": "2026-05-01"}
    murmurlog.release(
        months / "2026-05.parquet", out=tmp_path / "may", state=state, **BUDGET, **window
    )
    with pytest.raises(InputError, match="missing or damaged"):
        murmurlog.release(months / "2026-05.parquet", out=tmp_path / "all", state=state, **BUDGET)
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"tables": ["pair"]}, "the pair table"),
        ({"mechanism": "threshold"}, "--mechanism threshold"),
        ({"unit": "session"}, "--unit session"),
        ({"since": "2026-05-01"}, "--since"),
    ],
)
def test_what_distinct_rows_do_not_give_is_refused(months, tmp_path, options, what):
    with pytest.raises(UsageError, match=f"from which {what} cannot be applied"):
        murmurlog.release(
            months / "2026-05.parquet",
            out=tmp_path / "out",
            state=tmp_path / "state",
            **BUDGET,
            **options,
        )
    assert list(tmp_path.iterdir()) == []

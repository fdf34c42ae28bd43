"""What `import murmurlog` offers: all names are there, found by tab completion, and typed."""

import subprocess
import sys
from importlib.resources import files

import pytest

import murmurlog
from murmurlog.errors import UsageError


def test_every_public_name_is_there_and_listed():
    assert murmurlog.__all__ == sorted(murmurlog.__all__)
    assert set(dir(murmurlog)) == {*murmurlog.__all__, "__version__"}
    for name in murmurlog.__all__:
        assert getattr(murmurlog, name).__module__.startswith("murmurlog.")
    assert (files("murmurlog") / "py.typed").is_file()


def test_importing_the_package_loads_nothing_heavy():
    code = "import murmurlog, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "pyarrow", "duckdb"}.isdisjoint(done.stdout.split())


@pytest.mark.slow
def test_generate_profile_and_plan_are_functions(tmp_path):
    log = murmurlog.generate(rows=3000, out=tmp_path / "log.parquet", seed=3)
    path = str(tmp_path / "log.parquet")
    assert murmurlog.profile(path)["rows"] == log.rows == 3000
    with pytest.raises(UsageError, match="a profile has no option epsilon"):
        murmurlog.profile(path, epsilon=5.0)
    assert murmurlog.plan(epsilon=1.0, delta=1e-6).guarantee.epsilon == 1.0
    reached = murmurlog.plan(target="queries=5", like="plain", users=3000)
    assert reached.met
    assert reached.settings["epsilon"] == reached.choice.epsilon
    with pytest.raises(UsageError, match="a forecast does not vary noise"):
        murmurlog.plan(target="queries=5", like="plain", users=3000, noise="geometric")


def test_export_estimate_and_compare_are_functions(tmp_path):
    murmurlog.generate(rows=40_000, out=tmp_path / "log.parquet")
    murmurlog.release(str(tmp_path / "log.parquet"), out=tmp_path / "b", epsilon=10.0, delta=1e-3)
    every = murmurlog.estimate(tmp_path / "b")
    assert every.low < every.value < every.high
    share = murmurlog.estimate(tmp_path / "b", match="*", over="*")
    assert share.value == pytest.approx(1.0)
    murmurlog.generate(rows=40_000, out=tmp_path / "next.parquet", seed=2)
    murmurlog.release(str(tmp_path / "next.parquet"), out=tmp_path / "c", epsilon=10.0, delta=1e-3)
    changed = murmurlog.compare(tmp_path / "b", tmp_path / "c")
    tables = [murmurlog.load(tmp_path / name).tables["query"].num_rows for name in ("b", "c")]
    assert tables[0] == changed.kept + changed.lost.num_rows
    assert tables[1] == changed.kept + changed.gained.num_rows
    same = murmurlog.compare(tmp_path / "b", tmp_path / "b")
    assert same.as_json() == {"gained": 0, "lost": 0, "rose": 0, "fell": 0, "kept": tables[0]}
    assert murmurlog.export(tmp_path / "b", to="tsv", out=tmp_path / "tsv").files

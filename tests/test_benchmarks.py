"""Every benchmark can be imported, so that none goes stale unseen; the scripts of peers count a small log."""

import runpy
import sys
from pathlib import Path

import pytest

import murmurlog

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(FOLDER.rglob("*.py"))
OTHERS = {path.stem for path in FOLDER.glob("peers/*.txt")}  # projects with pinned requirements


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmarks") / "log.parquet"
    murmurlog.generate(rows=100, out=path)
    return path


@pytest.fixture
def import_script(monkeypatch):
    def import_script(script, *arguments):
        monkeypatch.setattr(sys, "path", [*sys.path, str(script.parent)])
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script), run_name="benchmark")

    return import_script


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_can_be_imported(script, import_script, log):
    if script.stem.partition("_")[0] in OTHERS:
        pytest.skip(f"{script.name} needs an environment of its own")
    import_script(script, log)


def test_a_stale_import_is_seen(import_script, tmp_path):
    script = tmp_path / "stale.py"
    script.write_text("from murmurlog.counting.bound import removed")
    with pytest.raises(ImportError):
        import_script(script)

"""What a command does not import, and that it is still there for those who need it."""

import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq

RELEASE = """
    import sys
    sys.argv = ["murmurlog", "release", "log.parquet", "--out", "bundle"]
    from murmurlog.cli.main import main
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
    for name in ("pandas", "ibis.backends.sql.compilers.mysql", "numpy.f2py", "numpy.testing"):
        assert name not in sys.modules, name
"""
STILL_THERE = """
    from ibis.backends.sql.compilers import DuckDBCompiler, MySQLCompiler, duckdb, mysql
    assert isinstance(duckdb.compiler, DuckDBCompiler) and isinstance(mysql.compiler, MySQLCompiler)
    import numpy, pandas, pyarrow
    numpy.testing.assert_allclose(1, 1)
    assert numpy.f2py.run_main
    assert pyarrow.table({"a": [1, None]}).to_pandas().shape == (2, 1)
"""


def test_a_release_imports_no_package_that_it_does_not_use(tmp_path):
    users = [f"u{n % 50}" for n in range(200)]
    log = {"user": users, "query": [f"q{n % 7}" for n in range(200)], "url": ["a.org/b"] * 200}
    log["time"] = ["2026-01-01 10:00:00"] * 200
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    code = textwrap.dedent(RELEASE) + textwrap.dedent(STILL_THERE)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

"""Input that somebody else wrote: what it may do at most. The larger part is `make fuzz`."""

import json
import os
import random
import resource
import shutil
from pathlib import Path

import cases
import forged_bundles
import fuzz
import hostile_bundles
import hostile_logs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run
from explore import EXPLORED, explore
from forking import fences
from log_readers import read_rows
from properties import PROPERTIES, hold
from warm import Runner

import murmurlog
from murmurlog.bundle.read import read_table
from murmurlog.errors import BundleError, InputError, UsageError
from murmurlog.evaluation.label_files import read_doc_freq, read_planted
from murmurlog.logs import formats as shapes
from murmurlog.logs.screen import load
from murmurlog.logs.source import find
from murmurlog.privacy import WeightedCounts, rounds
from murmurlog.web.bundles import ServedBundles

FAST = "threshold(noise=geometric, d=1, scale=1.0, T=24)"


@pytest.fixture(scope="module")
def sound_bundle(tmp_path_factory):
    """A bundle that verifies."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "log.tsv").write_text(cases.text("tsv", 200))
    murmurlog.release(
        str(folder / "log.tsv"), out=folder / "bundle", tables=["query"], mechanism=FAST
    )
    return folder / "bundle"


@pytest.fixture
def bundle(sound_bundle, tmp_path):
    return shutil.copytree(sound_bundle, tmp_path / "bundle")


# --- logs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.csv", b"x" * 200_000 + b"\n"),  # longer than a field of Python's csv may be
        ("log.jsonl", b'{"a":' * 100_000 + b"\n"),
        ("log.jsonl", b'{"user": ' + b"9" * 6000 + b"}\n"),
        ("log.parquet", b"PAR1\xff\xff\xff\x7fPAR1"),
        ("log.duckdb", b"no database"),
        ("log.tsv.gz", cases.packed(b"user\tquery\n" * 999, "gz")[:60]),
        ("log.tsv.zst", b"\x28\xb5\x2f\xfd\x00"),
        ("log.csv", b""),
    ],
)
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError):
        read_whole(str(tmp_path / name))


def read_whole(path):
    source = find(path)
    return list(shapes.pieces(source.files[0], source.compressions[0]))


def test_a_path_that_is_too_long_or_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for path in (str(tmp_path / "loop.csv"), str(tmp_path / "lo*.csv"), "\udcff.csv"):
        with pytest.raises(InputError, match="there is no file|no file matches"):
            find(path)
    (tmp_path / "log.csv").write_text("user,query\nu,q\n")
    assert run("release", "", cwd=tmp_path).returncode == 2
    done = run("release", "x" * 5000, cwd=tmp_path)
    assert (done.returncode, "File name too long" in done.stderr) == (2, True)


def test_names_that_are_no_utf8_are_refused_before_anything_is_booked(tmp_path):
    (tmp_path / "\udcff.csv").write_text("user,query\nu,q\n")
    (tmp_path / "log.csv").write_text("user,query\nu,q\n")
    booked = (
        "--ledger",
        "ledger.db",
        "--source",
        "web",
        "--new-source",
        "--mechanism",
        FAST,
        "--tables",
        "query",
    )
    for source, out, code in (("./\udcff.csv", "b", 4), ("log.csv", "\udcff", 2)):
        done = run("release", source, "--out", out, *booked, cwd=tmp_path)
        assert (done.returncode, "is not UTF-8" in done.stderr) == (code, True)
    assert run("generate", "--rows", "9", "--out", "\udcff.parquet", cwd=tmp_path).returncode == 2
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_a_file_that_unpacks_out_of_all_proportion_is_refused(tmp_path, monkeypatch, how):
    monkeypatch.setattr(shapes, "LITTLE", 1 << 20)
    content = b"user\tquery\n" + b"\n" * (1 << 23)
    (tmp_path / f"log.csv.{how}").write_bytes(cases.packed(content, how))
    compression = {"gz": "gzip", "zst": "zstd"}[how]
    with pytest.raises(InputError, match="unpacks to more than 200 times its size"):
        list(shapes.pieces(tmp_path / f"log.csv.{how}", compression))
    (tmp_path / "log.csv").write_bytes(content)  # as it is, the same may be read
    assert sum(map(len, shapes.pieces(tmp_path / "log.csv", None))) == len(content)


def test_a_table_of_duckdb_whose_name_holds_quotes_is_read(tmp_path):
    name = 'a"; DROP TABLE raw; --'
    hostile_logs._named("log.duckdb", "duckdb", ["user", "time", "query", "url"])(tmp_path)
    import duckdb

    with duckdb.connect(str(tmp_path / "log.duckdb")) as connection:
        connection.execute(f'ALTER TABLE log RENAME TO "{name.replace(chr(34), chr(34) * 2)}"')
    assert find(str(tmp_path / "log.duckdb")).table == name


@pytest.mark.parametrize("name", ["*", "$", 'a"b', "a\\b", "a/b", "a~b", "~1", "[0]", "a.b", "'"])
def test_any_key_of_json_is_one_column(tmp_path, name):
    lines = [{name: f"u{n}", "query": "q", "other": "x"} for n in range(3)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = {"columns": {"user": name, "query": "query"}}
    rows, _ = read_rows(tmp_path / "log.jsonl", source_options=found)
    assert [row["user"] for row in rows] == ["u0", "u1", "u2"]


def test_other_files_of_the_owner_are_read_with_care(tmp_path):
    path = tmp_path / "file.csv"
    path.write_bytes(b"kind,\xffquery\na,b\n")
    with pytest.raises(InputError, match="does not have the columns"):
        read_planted(path)
    path.write_text("word\t" + "9" * 5000)
    with pytest.raises(InputError, match="line 1"):
        read_doc_freq(path)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(a+)+$", r"(\w*)*x", r"a*a*a*a*a*a*b"),
        pytest.param(r"((a?){60})a{60}", marks=pytest.mark.slow),
    ],
)
def test_a_pattern_that_can_take_for_ever_is_refused(tmp_path, pattern):
    (tmp_path / "p.toml").write_text(f"[bomb]\npatterns = ['{pattern}']\n")
    with pytest.raises(UsageError, match="takes too long"):
        load(tmp_path / "p.toml")


def test_settings_that_nest_without_end_are_a_usage_error(tmp_path):
    (tmp_path / "murmurlog.toml").write_text("a = " + "[" * 20_000)
    done = run("plan", cwd=tmp_path)
    assert (done.returncode, "is not TOML" in done.stderr) == (2, True)
    for value in ("true", "nan", "[1, 2]", "{a = 1}"):
        (tmp_path / "murmurlog.toml").write_text(f"[plan]\nepsilon = {value}\n")
        done = run("plan", cwd=tmp_path)
        assert (done.returncode, "is no number" in done.stderr) == (2, True)


# --- bundles --------------------------------------------------------------------------------------


def forge(bundle, **changes):
    path = bundle / "privacy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    hostile_bundles.seal(bundle)
    return bundle


@pytest.mark.parametrize(
    "changes",
    [
        {"declared_users": "many"},
        {"unprotected": [1]},
        {"about": {"title": 3}},
        {"by": {"column": "a", "values": "abc"}},
        {"ledger": []},
        {"noise": {"method": "", "entropy": "operating system"}},
        {"assumptions": {"A0": 1, "none": 2}},
        {"guarantee": {"unit": "user", "neighbours": "x", "notion": "dp", "epsilon": 10**400}},
    ],
)
def test_a_certificate_of_other_types_is_a_damaged_bundle(bundle, changes):
    done = run("verify", forge(bundle, **changes))
    assert done.returncode in (1, 6)
    assert "internal" not in done.stderr


@pytest.mark.parametrize(
    ("part", "name", "value", "code"),
    [
        ("noise", "delta", 1e308, 1),
        ("noise", "delta", float("nan"), 6),
        ("noise", "method", "a coin", 1),
        ("text", "since", [], 6),
        ("text", "since", "\x1b[2J", 6),
        ("text", "where", {"country": 1}, 6),
        ("text", "gap", -1, 6),
        ("text", "gap", 10**400, 6),
        ("text", "set_size", 1000, 1),
        ("text", "deny", "no", 6),
    ],
)
def test_what_is_said_of_noise_and_rows_is_what_a_release_can_say(bundle, part, name, value, code):
    said = json.loads((bundle / "privacy.json").read_text())[part]
    report = run("verify", forge(bundle, **{part: {**said, name: value}}))
    assert report.returncode == code


@pytest.mark.parametrize(("version", "code"), [(None, 1), ("0.2.0", 0)])
def test_only_versions_that_compared_whole_texts_say_nothing_of_keys(bundle, version, code):
    certificate = json.loads((bundle / "privacy.json").read_text())
    del certificate["noise"]["keys"]
    version = version or certificate["murmurlog"]
    changed = forge(bundle, noise=certificate["noise"], murmurlog=version)
    assert run("verify", changed).returncode == code


def test_a_threshold_far_from_all_counts_costs_no_memory(bundle):
    tables = json.loads((bundle / "privacy.json").read_text())["tables"]
    tables["query"]["parameters"]["threshold"] = 10**12
    assert run("estimate", forge(bundle, tables=tables)).returncode == 0
    tables["query"]["parameters"]["threshold"] = 10**400
    assert run("estimate", forge(bundle, tables=tables)).returncode == 6


def test_parameters_that_are_no_numbers_are_a_damaged_bundle(bundle):
    tables = json.loads((bundle / "privacy.json").read_text())["tables"]
    tables["query"]["parameters"]["scale"] = "<script>"
    done = run("estimate", forge(bundle, tables=tables))
    assert (done.returncode, "tables.query.parameters.scale must be" in done.stderr) == (6, True)


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "query\x00", "\x1b[2J"])
def test_the_name_of_a_table_leads_nowhere(bundle, name):
    tables = json.loads((bundle / "privacy.json").read_text())["tables"]
    (bundle.parent / "secret.parquet").write_bytes((bundle / "data/query.parquet").read_bytes())
    forge(bundle, tables={name: tables["query"]})
    with pytest.raises(BundleError):
        _ = murmurlog.load(bundle).tables
    for command in (["verify"], ["export", "--to", "tsv", "--out", bundle.parent / "e"]):
        done = run(command[0], bundle, *command[1:])
        assert done.returncode == 6
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["privacy.json", "SHA256SUMS", "data/query.parquet", "data"])
def test_links_and_pipes_are_never_read(bundle, name):
    for how in ("link", "pipe"):
        path = bundle / name
        path.rename(bundle.parent / f"elsewhere-{how}")
        if how == "link":
            path.symlink_to(bundle.parent / "elsewhere-link")
        else:
            os.mkfifo(path)
        assert run("verify", bundle).returncode == 6
        if name != "SHA256SUMS":  # a release that is only looked at has no use for it
            with pytest.raises(BundleError):
                _ = murmurlog.load(bundle).tables
        path.unlink()
        shutil.copytree(
            bundle.parent / f"elsewhere-{how}", path
        ) if name == "data" else shutil.copy(bundle.parent / f"elsewhere-{how}", path)


@pytest.mark.parametrize("change", ["gone", "folder", "link", "cut", "twice", "carriage return"])
def test_a_bundle_without_a_sound_list_of_sums_is_corrupt(bundle, change):
    path = bundle / "SHA256SUMS"
    said = path.read_text()
    path.unlink()
    if change == "folder":
        path.mkdir()
    elif change == "link":
        (bundle.parent / "sums").write_text(said)
        path.symlink_to(bundle.parent / "sums")
    elif change != "gone":
        forged = {"cut": said[:-1], "twice": said + said, "carriage return": said[:-1] + "\r\n"}
        path.write_bytes(forged[change].encode())
    for command in (["verify"], ["export", "--to", "tsv", "--out", bundle.parent / "e"]):
        assert run(command[0], bundle, *command[1:]).returncode == 6


def test_tables_with_other_columns_or_empty_values_are_not_handed_out(bundle):
    path = bundle / "data" / "query.parquet"
    sound = pq.read_table(path)
    invalid = pa.StringArray.from_buffers(
        1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")
    )
    for table in (
        pa.table({"a": [1]}),
        sound.set_column(1, "users", pa.nulls(len(sound), pa.int64())),
        sound.set_column(1, "users", pa.array([2**63 - 1] * len(sound))),
        sound.slice(0, 1).set_column(0, "query", invalid),
    ):
        pq.write_table(table, path)
        with pytest.raises(BundleError):
            _ = murmurlog.load(bundle).tables


def test_a_table_that_unpacks_out_of_all_proportion_is_refused(bundle):
    path = bundle / "data" / "query.parquet"
    schema = pq.read_schema(path)
    values = zip(("a", 50, 40, 60, 1.0, True), schema, strict=True)
    many = [pa.repeat(pa.scalar(value, field.type), 4_000_000) for value, field in values]
    pq.write_table(pa.Table.from_arrays(many, schema=schema), path, compression="zstd")
    with pytest.raises(BundleError, match="more than 200 times its size"):
        read_table(bundle, "query")


def test_no_table_and_a_key_that_is_there_twice_are_a_damaged_certificate(bundle):
    said = (bundle / "privacy.json").read_text()
    twice = said.replace("{", '{"private": true,', 1)
    inside = said.replace('"guarantee": {', '"guarantee": {"epsilon": 0.001,', 1)
    without = json.dumps(json.loads(said) | {"tables": {}})
    for forgery in (twice, inside, without):
        (bundle / "privacy.json").write_text(forgery)
        hostile_bundles.seal(bundle)
        assert run("verify", bundle).returncode == 6
        with pytest.raises(BundleError, match="is damaged"):
            murmurlog.load(bundle)


def test_parameters_that_are_no_numbers_are_not_served(bundle):
    tables = json.loads((bundle / "privacy.json").read_text())["tables"]
    tables["query"]["parameters"]["scale"] = "x"
    with pytest.raises(BundleError, match="parameters.scale must be a number"):
        ServedBundles([forge(bundle, tables=tables)])


@pytest.mark.parametrize("stderr", [float("nan"), float("inf"), -1.0, 1e200])
def test_errors_that_no_count_has_are_refused(bundle, stderr):
    path = bundle / "data" / "query.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("users_stderr")
    pq.write_table(
        table.set_column(place, table.schema.field(place), pa.array([stderr] * len(table))), path
    )
    with pytest.raises(BundleError, match="standard errors that are negative"):
        read_table(bundle, "query")


def dictionary_of(value, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def test_a_long_text_that_stands_once_for_many_rows_is_measured_first(bundle):
    """A file of 2 kB would come to 4 GB: Arrow must not be asked for it."""
    rows, path = 4096, bundle / "data" / "query.parquet"
    texts = dictionary_of("x" * (1 << 20), rows)
    lists = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), texts)
    before = pa.total_allocated_bytes()
    for name, column in (("query", texts), ("queries", lists)):
        table = pa.table({name: column, "users": [50] * rows})
        pq.write_table(table, path, compression="zstd", store_schema=False)
        del table
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(BundleError, match="more than 200 times its size"):
            read_table(bundle, "query")
        # Kilobytes; DuckDB, which measures lists, may take what the file may come to and a little.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 1_000_000
    assert pa.total_allocated_bytes() - before < 1 << 26
    wide = pa.table({"query": pa.array(["x"], pa.large_string())})
    pq.write_table(wide, path)
    with pytest.raises(BundleError, match="an unexpected type"):
        read_table(bundle, "query")


@pytest.mark.parametrize("folder", ["a*b", "a[1]?", "x=1", "it's"])
def test_tables_are_read_as_they_were_written(tmp_path, folder):
    root = tmp_path / folder
    (root / "data").mkdir(parents=True)
    # More texts than a dictionary holds, so that a file has both kinds of pages.
    texts = [f"{n} " + "x" * 20 for n in range(70_000)]
    tables = {
        "query": pa.table({"query": texts, "users": range(70_000)}),
        "session": pa.table({"queries": [[a, "b"] for a in texts]}),
    }
    for name, table in tables.items():
        pq.write_table(table, root / "data" / f"{name}.parquet", dictionary_pagesize_limit=1 << 16)
        found = read_table(root, name)
        assert found.equals(table)
        assert found.schema.equals(table.schema)


def test_marks_without_end_on_a_letter_are_refused_before_they_are_put_in_order(bundle):
    path = bundle / "data" / "query.parquet"
    table = pq.read_table(path)
    # What normalising takes away, or takes apart, does not hide them.
    for piece in ("\u0315\u0300", "\u0315\u0300\u200b", "\u0f73"):
        odd = pa.array(["a" + piece * 3000] + ["b"] * (len(table) - 1))
        pq.write_table(table.set_column(0, table.schema.field(0), odd), path)
        hostile_bundles.seal(bundle)
        messages = " ".join(check.message for check in murmurlog.verify(bundle).checks)
        assert "more than 1000 marks on one letter" in messages


def test_sides_are_held_against_each_other_a_few_at_a_time(monkeypatch):
    """Absurd parameters have thousands of them; the answer is that of all at once."""
    absurd = rounds.Schedule(
        d=100, scales=(0.3,), own=(1,), past=(), thresholds=(3 * rounds.GRID,),
        counts=WeightedCounts(scale=1.0, histogram_scale=1.0),
    )  # fmt: skip
    sizes, real = [], rounds._delta

    def watched(*given):
        found = real(*given)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(rounds, "_delta", watched)
    whole = rounds.delta_of_rounds(absurd, epsilon=1.0, neighbours="replace")
    (every,) = sizes
    monkeypatch.setattr(rounds, "PAIRS_AT_ONCE", 1000)
    assert rounds.delta_of_rounds(absurd, epsilon=1.0, neighbours="replace") == whole
    assert max(sizes[1:]) <= 1000 < every == sum(sizes[1:])


def test_a_card_of_another_size_is_not_read(bundle, monkeypatch):
    with (bundle / "README.md").open("ab") as file:
        file.write(b" ")
    hostile_bundles.seal(bundle)
    read = []
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or whole(path))
    report = murmurlog.verify(bundle)
    assert [check.name for check in report.checks if not check.ok] == ["cards"]
    assert "README.md" not in read


def test_a_pipe_beside_a_bundle_does_not_hold_up_the_page(bundle):
    os.mkfifo(bundle / "report.htm")
    with pytest.raises(BundleError, match="or a pipe"):
        ServedBundles([bundle])


# --- the harness itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPLORED)
def test_nothing_but_our_own_errors_is_raised(name):
    explored = explore(name, seed=2, inputs=60)
    assert explored.violations == []
    assert explored.lines > 5


@pytest.fixture(scope="module")
def sound_bundles(tmp_path_factory):
    return forged_bundles.make_sound(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("name", forged_bundles.SERVED)
def test_the_page_refuses_or_shows_a_forged_bundle_and_never_breaks(name, sound_bundles):
    served = forged_bundles.serve_forged(name, seed=3, inputs=25, sound=sound_bundles)
    assert served.violations == []
    assert 0 < served.shown < served.inputs == 25  # both happen
    assert served.answers >= 8 * served.shown


@pytest.mark.parametrize(
    ("limit", "value", "words"), [("MOST_BYTES", 100, " bytes"), ("MOST_SECONDS", 0.0, "of CPU")]
)
def test_the_limits_of_the_page_are_watched(sound_bundles, monkeypatch, limit, value, words):
    monkeypatch.setattr(forged_bundles, limit, value)
    found = forged_bundles.Served()
    forged_bundles.ask(ServedBundles([sound_bundles[0]]), found, random.Random(1), "sound")
    assert words in found.violations[0]


def test_what_breaks_the_page_is_seen(sound_bundles, monkeypatch):
    def broken(*given):
        raise RuntimeError

    monkeypatch.setattr(forged_bundles, "verify_bundle", broken)
    monkeypatch.setattr(forged_bundles, "ADDRESSES", ["/privacy?check=now"] * 8)
    found = forged_bundles.Served()
    forged_bundles.ask(ServedBundles([sound_bundles[0]]), found, random.Random(1), "sound")
    assert "/privacy?check=now: status 500" in found.violations[0]


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_promise_holds_whatever_is_written(name):
    assert hold(name, seed=2, inputs=5) == []


@pytest.mark.slow
@pytest.mark.skipif(not fences(), reason="this kernel cannot keep a process from writing elsewhere")
def test_the_kernel_keeps_a_run_from_writing_elsewhere(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "tmp").mkdir(parents=True)
    outside.mkdir()
    codes, runner = [], Runner()
    for fenced, folder in ((False, outside), (True, inside), (True, outside)):
        command = ["generate", "--rows", "9", "--out", str(folder / f"{fenced}.csv")]
        codes.append(runner.run(inside, command, fenced=fenced))
    runner.close()
    assert codes == [0, 0, 5]
    assert os.listdir(outside) == ["False.csv"]


@pytest.mark.slow
def test_a_few_hostile_inputs_from_the_command_line(tmp_path):
    choice = random.Random(1)
    wanted = [*hostile_logs.logs(choice, 0.05), *hostile_bundles.bundles(choice, 0.05, tmp_path)]
    quick = [case for case in wanted if case.kind not in ("bombs", "long lines")]
    kinds = fuzz.run(choice.sample(quick, 8), tmp_path, workers=1)
    assert sum(kind.runs for kind in kinds.values()) == 8
    assert [v for kind in kinds.values() for v in kind.violations] == []


def test_the_harness_sees_what_is_broken(tmp_path):
    """Each alarm rings: a wrong exit, a traceback, a secret, a file outside, a leftover, memory."""
    for name in ("out", "tmp", "books"):
        (tmp_path / name).mkdir()
    before = fuzz.state(tmp_path)
    case = cases.Case("kind", "name", lambda root: None, ())
    (tmp_path / "stderr").write_text(f"Traceback\n{cases.QUERY}\x1b[2J")
    (tmp_path / "tmp" / "left").write_text("x")
    (tmp_path / "outside").write_text("12345")
    kind = fuzz.Kind("kind")
    fuzz.judge(case, 70, tmp_path, before, kind, 1 << 40)
    assert (kind.tracebacks, kind.wrong, kind.secrets, kind.outside) == (1, 1, 1, 5)
    (found,) = kind.violations
    for words in ("exit 70", "a secret in stderr", "tmp/left", "MB of memory", "for the terminal"):
        assert words in found
    clean = fuzz.Kind("kind")
    for path in ("stderr", "outside", "tmp/left"):
        (tmp_path / path).unlink()
    fuzz.judge(case, 0, tmp_path, before, clean, 1)
    assert clean.violations == []

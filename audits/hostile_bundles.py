"""Bundles that somebody else wrote: forged, damaged, oversized, with links, pipes and bombs."""

import copy
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cases import Case, mutated, rows, text, writes

import murmurlog
from murmurlog.bundle.write import publish

ROW = {
    "query": "a",
    "users": 50,
    "users_low": 40,
    "users_high": 60,
    "users_stderr": 1.0,
    "reliable": True,
}
FALSE = frozenset({1, 6})  # a claim does not hold, or the bundle is corrupt
CORRUPT = frozenset({6})
READ = {
    "verify": ("verify", "bundle"),
    "verify --json": ("verify", "bundle", "--json"),
    "export tsv": ("export", "bundle", "--to", "tsv", "--out", "out/e"),
    "export trec": ("export", "bundle", "--to", "trec", "--out", "out/e"),
    "export hf": ("export", "bundle", "--to", "hf", "--out", "out/e"),
    "export graph": ("export", "bundle", "--to", "graph", "--out", "out/e"),
    "estimate": ("estimate", "bundle"),
    "evaluate": (
        *(
            "evaluate",
            "log.tsv",
            "--bundle",
            "bundle",
            "--baselines",
            "raw",
            "--tasks",
            "statistics",
        ),
        *("--folds", "1", "--out", "out/r.html"),
    ),
    "estimate --over": ("estimate", "bundle", "--match", "c*", "--over", "*", "--json"),
}
# What nothing in a bundle can be held against: what made it, and from which rows.
FREE = {
    ("engine",), ("planned_by",),
    *(("text", name) for name in ("deny", "since", "until", "where", "gap", "consecutive")),
}  # fmt: skip
# What a version does not know, it does not check: exit 2.
UNKNOWN = frozenset({"format", "unit", "mechanism", "keys", "consistent", "planned_by"})
# What only the cards repeat, and so nothing contradicts in a bundle of another version.
CARDS = frozenset({"about", "assumptions", "text", "murmurlog"})
DEEP: Any = "deep"  # put in as text: Python's own writer would not write it
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**18, 10**400, 1e308, float("nan"), float("inf"), "", "../../../etc/passwd", "\ud800",
    "\u202e\x1b[2J", "<script>alert(1)</script>", "=cmd()", "x" * 100_000, [], {}, [[]], {"a": {}}, DEEP, "threshold",
)  # fmt: skip


def bundles(choice: random.Random, share: float, home: Path) -> Iterator[Case]:
    """Every kind of hostile bundle; `share` says how many of those that are drawn."""
    sound = home / "sound"
    _make(sound)
    yield from _certificates(sound, choice, share, own=True)
    # The same as another version would have written it: its cards are not checked, all else is.
    older, loaded = home / "older", murmurlog.load(sound)
    made = replace(loaded.certificate, murmurlog="0.0.9")
    publish(older, tables=loaded.tables, certificate=made)
    yield from _certificates(older, choice, share / 4, own=False)
    yield from _places(sound)
    yield from _tables(sound)
    yield from _changed(sound, choice, share)


def _make(sound: Path) -> None:
    log = sound.with_suffix(".parquet")
    pq.write_table(pa.Table.from_pylist(rows(400)[:-1]), log)
    murmurlog.release(str(log), out=sound, epsilon=6, mechanism="threshold", about={"title": "t"})
    log.unlink()


def _with(sound: Path, change: Callable[[Path], None], *, sealed: bool) -> Callable[[Path], None]:
    """A copy of a sound bundle, changed; its checksums are made anew if it is to look sound."""

    def make(root: Path) -> None:
        bundle = root / "bundle"
        shutil.copytree(sound, bundle)
        (root / "log.tsv").write_text(text("tsv"))
        change(bundle)
        if sealed:
            seal(bundle)

    return make


def seal(bundle: Path) -> None:
    """Writes checksums that are right."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(bundle)}\n"
        for path in sorted(bundle.rglob("*"))
        if path.is_file() and path.name != "SHA256SUMS" and path.stat().st_size < 1 << 29
    ]
    (bundle / "SHA256SUMS").write_text("".join(lines))


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inside:
        yield from paths(each, (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    changed = copy.deepcopy(value)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = new
    return changed


def as_text(value: Any) -> str:
    return json.dumps(value).replace('"deep"', "[" * 60_000 + "]" * 60_000)


def _certificates(sound: Path, choice: random.Random, share: float, *, own: bool) -> Iterator[Case]:
    """The certificate with every part replaced by every nasty value, and checksums that are right."""
    stated = json.loads((sound / "privacy.json").read_text())

    def says(certificate: str) -> Callable[[Path], None]:
        return writes("privacy.json", certificate)

    def codes_of(at: tuple[Any, ...], changed: Any) -> frozenset[int]:
        """Exit codes of `verify` where a certificate is changed at one place."""
        free = at in FREE or changed == stated or at == ("murmurlog",)
        on_cards = not own and bool(at) and at[0] in CARDS
        unknown = bool(at) and at[-1] in UNKNOWN
        return FALSE | ({0} if free or on_cards else set()) | ({2} if unknown else set())

    changes = [(at, new) for at in paths(stated) for new in VALUES]
    for at, new in choice.sample(changes, min(len(changes), round(500 * share))):
        forged_text = as_text(put(stated, at, new))
        name = f"{'/'.join(map(str, at))} = {new!a:.30}"
        how = choice.choice(list(READ)) if choice.random() < 0.4 else "verify"
        codes = frozenset({0, 2, 6})
        if how.startswith("verify"):
            codes = codes_of(at, put(stated, at, new))
        make = _with(sound, says(forged_text), sealed=True)
        yield Case("certificates", f"{how}, {name}", make, READ[how], codes)
        if choice.random() < 0.1:
            make = _with(sound, says(forged_text), sealed=False)
            yield Case("certificates", f"unsealed, {name}", make, READ["verify"], CORRUPT)
    for at in paths(stated):
        if at and isinstance(at[-1], str):
            less = copy.deepcopy(stated)
            inner = less
            for key in at[:-1]:
                inner = inner[key]
            del inner[at[-1]]
            make = _with(sound, says(json.dumps(less)), sealed=True)
            name = f"without {'/'.join(map(str, at))}"
            yield Case("certificates", name, make, READ["verify"], codes_of(at, less))
    for name in (
        "../../secret",
        "/etc/passwd",
        "..",
        "query/../query",
        "a" * 300,
        "\x1b[2J",
        "query\x00",
        "\udcff",
        "*",
        "",
    ):
        forged = copy.deepcopy(stated)
        forged["tables"][name] = forged["tables"].pop("query")
        for how, command in READ.items():
            codes = CORRUPT if not how.startswith("estimate") else frozenset({2, 6})
            make = _with(sound, says(json.dumps(forged)), sealed=True)
            yield Case("traversal", f"{how} {name[:20]!a}", make, command, codes)
    for what, forged_text in {
        "no byte": "", "deep": "[" * 400_000, "deep objects": '{"a":' * 100_000, "no object": "1",
        "a huge integer": '{"format": ' + "9" * 500_000 + "}", "repeated": json.dumps(stated)[:-1] + ', "private": true}',
        "2 MB": " " * 2_000_000 + json.dumps(stated), "a mark": "\ufeff" + json.dumps(stated), "cut": json.dumps(stated)[:-1],
    }.items():  # fmt: skip
        make = _with(sound, says(forged_text), sealed=True)
        for how in ("verify", "estimate", "export tsv"):
            yield Case("certificates", f"{how}, {what}", make, READ[how], CORRUPT)


def _places(sound: Path) -> Iterator[Case]:
    """Links, pipes, folders, devices and missing or further files."""
    names = [str(path.relative_to(sound)) for path in sorted(sound.rglob("*"))]

    def link(name: str, to: str) -> Callable[[Path], None]:
        def change(bundle: Path) -> None:
            path = bundle / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(to)

        return change

    def copied(name: str) -> Callable[[Path], None]:
        """A link to the very same content elsewhere: checksums match."""

        def change(bundle: Path) -> None:
            path = bundle / name
            path.rename(bundle.parent / "elsewhere")
            path.symlink_to(bundle.parent / "elsewhere")

        return change

    def pipe(name: str) -> Callable[[Path], None]:
        def change(bundle: Path) -> None:
            path = bundle / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            os.mkfifo(path)

        return change

    def gone(name: str) -> Callable[[Path], None]:
        def change(bundle: Path) -> None:
            path = bundle / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

        return change

    def folder(name: str) -> Callable[[Path], None]:
        def change(bundle: Path) -> None:
            gone(name)(bundle)
            (bundle / name).mkdir()

        return change

    def large(name: str) -> Callable[[Path], None]:
        def change(bundle: Path) -> None:
            with (bundle / name).open("ab") as file:
                file.truncate(1 << 30)

        return change

    for name in names:
        is_folder = (sound / name).is_dir()
        ways = {"pipe": pipe(name), "gone": gone(name), "loop": link(name, Path(name).name),
                "/dev/zero": link(name, "/dev/zero"), "/etc/passwd": link(name, "/etc/passwd"),
                "a link to the same": copied(name)}  # fmt: skip
        if not is_folder:
            ways |= {"folder": folder(name), "1 GB": large(name)}
        for what, change in ways.items():
            for how in ("verify", "export tsv", "estimate"):
                if what == "1 GB" and how != "verify":
                    continue
                codes = CORRUPT | {0} if how == "estimate" else CORRUPT
                make = _with(sound, change, sealed=False)
                yield Case("bundle files", f"{how}, {name}: {what}", make, READ[how], codes)
    for name in (
        "more.txt",
        "data/more.parquet",
        "\udcff",
        "\x1b[2J",
        "a\nb",
        "x" * 200,
        "deep/" * 50 + "x",
    ):

        def more(bundle: Path, name: str = name) -> None:
            (bundle / name).parent.mkdir(parents=True, exist_ok=True)
            (bundle / name).write_text("x")

        for sealed in (False, True) if name.isprintable() else (False,):
            make = _with(sound, more, sealed=sealed)
            yield Case("bundle files", f"more: {name[:20]!a}", make, READ["verify"], CORRUPT)
    for bundle in ("", ".", "/", "/dev/null", "nothing", "\udcff", "x" * 5000, "\x1b[2J"):
        for how, command in READ.items():
            arguments = tuple(bundle if part == "bundle" else part for part in command)
            make = writes("log.tsv", text("tsv"))
            yield Case("bundle files", f"{how} {bundle[:9]!a}", make, arguments, CORRUPT)


def _tables(sound: Path) -> Iterator[Case]:
    """Parquet files that are none, have other columns, or unpack to more than memory holds."""
    query = pq.read_table(sound / "data" / "query.parquet")
    keys, stated = query["query"], query.schema.metadata

    def holds(table: pa.Table, **options: Any) -> Callable[[Path], None]:
        return lambda bundle: pq.write_table(table, bundle / "data" / "query.parquet", **options)

    def bare(content: bytes) -> Callable[[Path], None]:
        return writes("data/query.parquet", content)

    def many(bundle: Path) -> None:
        """10^9 equal rows in a small file."""
        piece = pa.Table.from_arrays(
            [
                pa.repeat(pa.scalar(v, f.type), 1 << 21)
                for v, f in zip(ROW.values(), query.schema, strict=True)
            ],
            schema=query.schema,
        )
        with pq.ParquetWriter(bundle / "data" / "query.parquet", query.schema) as file:
            for _ in range(64):
                file.write_table(piece)

    def wide(bundle: Path) -> None:
        row = pa.table({name: [v] for name, v in (ROW | {"query": "x" * 300_000_000}).items()})
        pq.write_table(
            row.cast(query.schema), bundle / "data" / "query.parquet", compression="zstd"
        )

    def repeated(bundle: Path) -> None:
        """One long text that stands in the file once and in every row."""
        n, one = 65_536, pa.array(["x" * (1 << 20)])
        table = pa.table(
            {
                **{name: [value] * n for name, value in ROW.items()},
                "query": pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), one),
            }
        )
        path = bundle / "data" / "query.parquet"
        pq.write_table(table, path, compression="zstd", store_schema=False)

    error = query.schema.get_field_index("users_stderr")
    nan = query.set_column(error, "users_stderr", pa.array([float("nan")] * len(query)))
    huge = query.set_column(1, "users", pa.array([2**63 - 1] * len(query)))
    nothing = query.set_column(1, "users", pa.nulls(len(query), pa.int64()))
    invalid = pa.StringArray.from_buffers(
        1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")
    )
    odd = query.slice(0, 1).set_column(0, "query", invalid)
    ways: dict[str, Callable[[Path], None]] = {
        "other columns": holds(pa.table({"a": [1]})),
        "no columns": holds(pa.table({})),
        "other types": holds(query.set_column(0, "query", pa.array([[1]] * len(query)))),
        "dictionaries": holds(query.set_column(0, "query", keys.combine_chunks().dictionary_encode())),
        "large strings": holds(query.set_column(0, "query", keys.cast(pa.large_string()))),
        "columns twice": holds(pa.Table.from_arrays([*query.columns, keys], [*query.column_names, "query"])),
        "a name for the terminal": holds(query.rename_columns(["\x1b[2J", *query.column_names[1:]])),
        "NaN": holds(nan.cast(query.schema)),
        "huge counts": holds(huge.cast(query.schema)),
        "empty values": holds(nothing.cast(query.schema)),
        "no UTF-8": holds(odd.cast(query.schema)),
        "other metadata": holds(query.replace_schema_metadata({"dp.epsilon": "0"})),
        "no metadata": holds(query.replace_schema_metadata(None)),
        "hostile metadata": holds(query.replace_schema_metadata({**(stated or {}), b"\xff": b"\xff" * 99})),
        "text": bare(b"query,users\n"),
        "no byte": bare(b""),
        "two marks": bare(b"PAR1PAR1"),
        "a footer of 2 GB": bare(b"PAR1\xff\xff\xff\x7fPAR1"),
        "markup": holds(pa.table({name: [v] for name, v in (ROW | {"query": "<script>"}).items()}).cast(query.schema)),
    }  # fmt: skip
    for what, change in ways.items():
        for how, command in READ.items():
            codes = FALSE if how.startswith("verify") else frozenset({0, 2, 6})
            make = _with(sound, change, sealed=True)
            yield Case("bundle tables", f"{how}, {what}", make, command, codes)
    for what, change in {
        "10^8 equal rows": many,
        "one value of 300 MB": wide,
        "one value of 1 MB in every row": repeated,
    }.items():
        for how in ("verify", "export tsv", "estimate"):
            codes = FALSE if how == "verify" else CORRUPT
            make = _with(sound, change, sealed=True)
            yield Case("bombs", f"{how}, {what}", make, READ[how], codes, most=2 << 30)


def _changed(sound: Path, choice: random.Random, share: float) -> Iterator[Case]:
    """Every file with a few bytes changed: never accepted, with or without right checksums."""
    for path in sorted(p for p in sound.rglob("*") if p.is_file()):
        name, content = str(path.relative_to(sound)), path.read_bytes()
        for n in range(round(16 * share)):
            spoiled = mutated(content, choice)
            if spoiled == content:
                continue

            def change(bundle: Path, name: str = name, spoiled: bytes = spoiled) -> None:
                (bundle / name).write_bytes(spoiled)

            unsealed = _with(sound, change, sealed=False)
            yield Case("bundle bytes", f"{name} {n}", unsealed, READ["verify"], CORRUPT)
            if name != "SHA256SUMS":
                codes = FALSE | {0} if name == "privacy.json" else FALSE
                sealed = _with(sound, change, sealed=True)
                yield Case("bundle bytes", f"sealed {name} {n}", sealed, READ["verify"], codes)
                how = choice.choice(list(READ)[2:])
                yield Case(
                    "bundle bytes", f"{how} {name} {n}", sealed, READ[how], frozenset({0, 2, 6})
                )

"""Promises that hold for whatever somebody writes, each tried with inputs that Hypothesis draws.

Where a promise is broken, Hypothesis looks for the smallest input that breaks it.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cases import packed, text
from explore import TEXTS
from hostile_bundles import paths, put, seal
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from log_rows import rows_of

import murmurlog
from murmurlog.auditing.verify import verify
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.files import sums
from murmurlog.bundle.read import read_table
from murmurlog.bundle.write import make_cards
from murmurlog.errors import BundleError, MurmurlogError, OtherVersion
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.source import find
from murmurlog.mechanisms import MECHANISMS, parse

Property = Callable[[Path], Callable[[], None]]  # made in a folder of its own

_OTHERS = [(f"u{n}", f"common {n}", "2026-01-31 18:00:00", "a.example") for n in range(4)]
_NAMES = ("user", "query", "time", "url")
_LETTERS = (
    *("d", "b", "scale", "sigma", "T", "K", "N", "m", "lam", "tau", "users", "noise", "count", "k", "cap", "L"),
    *("l_s", "l_q", "subsequences", "s", "own", "past", "C", "reach", "focus", "fakes", "T_pool"),
)  # fmt: skip
_numbers = st.one_of(
    st.integers(-2, 60).map(str), st.integers(0, 10**20).map(str), st.floats(0, 1e6).map(repr),
    st.floats().map(repr), st.lists(st.integers(0, 99), max_size=4).map(lambda n: "_".join(map(str, n))),
    st.sampled_from(["geometric", "gaussian", "all", "users", "rows"]),
)  # fmt: skip
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)  # which is not equal to itself
    | st.text(max_size=8)
    | st.sampled_from([*MECHANISMS, "user", "query", "dp", "pdp", "none", "replace", "users"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def _texts_of_mechanisms(draw: st.DrawFn) -> str:
    """Mechanisms that there are, with parameters and values most of which do not fit."""
    name = draw(st.sampled_from(sorted(MECHANISMS)))
    if draw(st.booleans()):
        sound = [t for t in TEXTS if t.startswith(f"{name}(")]
        if sound:  # a sound text with one value exchanged
            inner = draw(st.sampled_from(sound))[len(name) + 1 : -1]
            inside = dict(pair.split("=") for pair in inner.split(", "))
            inside[draw(st.sampled_from(sorted(inside)))] = draw(_numbers)
            return f"{name}({', '.join(f'{k}={v}' for k, v in inside.items())})"
    letters = draw(st.dictionaries(st.sampled_from(_LETTERS), _numbers, max_size=5))
    return f"{name}({', '.join(f'{k}={v}' for k, v in letters.items())})"


def names(_: Path) -> Callable[[], None]:
    """A mechanism's text is refused or names it; its delta is a chance and falls with epsilon."""

    @given(_texts_of_mechanisms(), st.floats(1e-3, 5), st.floats(1e-3, 5))
    def promise(given_text: str, one: float, other: float) -> None:
        try:
            made = parse(given_text)
        except MurmurlogError:
            return
        assert parse(str(made)) == made
        deltas = []
        for epsilon in sorted((one, other)):
            try:
                claim = made.guarantee(epsilon=epsilon, unit="user", neighbours="add-remove")
            except MurmurlogError:
                return
            assert 0 <= claim.delta <= 1 or claim.notion == "none", claim
            assert 0 <= claim.plain_delta <= 1 or claim.notion == "none", claim
            deltas.append(claim.delta)
        # But for what is set aside for the sampler, which is counted e^epsilon times.
        assert deltas[1] <= deltas[0] * (1 + 1e-9) + 1e-9, deltas

    return promise


def _written(form: str, lines: list[Any], path: Path) -> Path:
    """A log in which each line is a row of values or, in a text, the bytes of the line."""
    if form == "parquet":
        path = path / "log.parquet"
        columns = zip(*lines, strict=True)
        pq.write_table(pa.table(dict(zip(_NAMES, map(list, columns), strict=True))), path)
        return path
    path = path / f"log.{form}"
    kind, _, packing = form.partition(".")
    head = b"\t".join(name.encode() for name in _NAMES) + b"\n" if kind == "tsv" else b""
    content = head + b"".join(line + b"\n" for line in lines)
    path.write_bytes(packed(content, packing) if packing else content)
    return path


def _rows(path: Path) -> list[tuple[Any, ...]]:
    """The rows of everybody but the one who wrote what he liked."""
    with connect() as engine:
        keys = {role: role for role in _NAMES} if ".jsonl" in path.name else None
        source = find(str(path), SourceOptions(columns=keys))
        log = read(source, engine=engine, keep={"name": source.columns["user"]})
        found = rows_of(log, "name")
    others = {user for user, *_ in _OTHERS}
    return sorted(
        (user, query, str(time), url)
        for _, _, time, query, url, _, user in found.elements()
        if user in others
    )


def readers(form: str) -> Property:
    """Whatever one user writes, the rows of all others are read as they are."""

    def line(row: tuple[str, ...]) -> bytes:
        if form.startswith("jsonl"):
            return json.dumps(dict(zip(_NAMES, row, strict=True))).encode()
        return "\t".join(row).encode()

    def make(folder: Path) -> Callable[[], None]:
        is_table = form == "parquet"
        others = _OTHERS if is_table else [line(row) for row in _OTHERS]
        clean = _rows(_written(form, others, folder))
        assert len(clean) == len(_OTHERS)
        anything = st.text(st.characters(codec="utf-8"), max_size=40)
        hostile: st.SearchStrategy[Any]
        if is_table:
            hostile = st.tuples(st.just("victim"), *[anything] * 3)
        else:
            # He has an id of his own: a line that claims to be another's is another's.
            free = st.one_of(st.binary(max_size=60), anything.map(str.encode)).filter(
                lambda raw: b"\n" not in raw and not any(b"u%d" % n in raw for n in range(4))
            )
            values = st.tuples(st.just("victim"), *[anything] * 3)
            hostile = free if form.startswith("tsv") else st.one_of(free, values.map(line))

        @given(st.lists(hostile, min_size=1, max_size=6), st.integers(0, len(others)))
        def promise(written: list[Any], at: int) -> None:
            lines = [*others[:at], *written, *others[at:]]
            assert _rows(_written(form, lines, folder)) == clean

        return promise

    return make


def manifests(folder: Path) -> Callable[[], None]:
    """Any JSON in any place of a certificate is refused or read as what it says."""
    sound = _bundle(folder)
    stated = json.loads((sound / "privacy.json").read_text())
    table, sha256 = read_table(sound, "query"), sums(sound)
    places = [at for at in paths(stated) if at]

    @given(st.sampled_from(places), _json)
    def promise(at: tuple[Any, ...], value: Any) -> None:
        forged = json.loads(json.dumps(put(stated, at, value)))
        try:
            made = Certificate.from_json(forged)
        except (BundleError, OtherVersion):
            return
        said = json.dumps(made.as_json(), allow_nan=False, ensure_ascii=False).encode()
        assert Certificate.from_json(json.loads(said)) == made
        make_cards(made, sha256, {"query": table})  # every card can be made of what is accepted

    return promise


def claims(folder: Path) -> Callable[[], None]:
    """A bundle that states a smaller loss than its mechanism has does not verify."""
    sound = _bundle(folder)
    stated = json.loads((sound / "privacy.json").read_text())
    places = [
        (*at, key)
        for at in (("guarantee",), ("tables", "query", "guarantee"))
        for key in ("epsilon", "delta")
    ]
    least, most = 1e-6, 1 - 1e-6

    @given(
        st.lists(st.sampled_from(places), min_size=1, max_size=6, unique=True),
        st.floats(least, most),
    )
    def promise(which: list[tuple[Any, ...]], factor: float) -> None:
        forged = stated
        for at in which:
            value = forged
            for key in at:
                value = value[key]
            forged = put(forged, at, value * factor)
        bundle = folder / "forged"
        shutil.rmtree(bundle, ignore_errors=True)
        shutil.copytree(sound, bundle)
        (bundle / "privacy.json").write_text(json.dumps(forged))
        seal(bundle)
        try:
            report = verify(bundle)
        except (BundleError, OtherVersion):
            return
        assert not next(check for check in report.checks if check.name == "guarantee").ok

    return promise


def _bundle(folder: Path) -> Path:
    (folder / "log.tsv").write_text(text("tsv", 200))
    murmurlog.release(
        str(folder / "log.tsv"), out=folder / "sound", tables=["query"], mechanism=TEXTS[0]
    )
    return folder / "sound"


PROPERTIES: dict[str, Property] = {
    "any name": names,
    **{f"any row of .{form}": readers(form) for form in ("tsv", "jsonl", "parquet", "tsv.gz", "jsonl.zst")},
    "any manifest": manifests,
    "any smaller claim": claims,
}  # fmt: skip


def hold(name: str, *, seed: int, inputs: int) -> list[str]:
    """Draws inputs for one promise and returns what broke it, if something did."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = settings(max_examples=inputs, deadline=None, database=None, print_blob=False,
                         suppress_health_check=list(HealthCheck))  # fmt: skip
        try:
            seeded(seed)(drawn(PROPERTIES[name](Path(folder))))()
        except Exception as error:
            said = "; ".join([str(error), *getattr(error, "__notes__", ())])
            return [f"{type(error).__name__}: {said:.600}"]
    return []

"""Functions that read what others wrote, explored by inputs that reach new lines of their code.

An input that runs a line no input ran before is kept and changed further. Whatever is raised must be
an error of murmurlog's own, of the kind that the target says; anything else is a violation.
"""

import json
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from cases import mutated, packed, text
from hostile_bundles import VALUES, as_text, paths, put

import murmurlog
import murmurlog.cli.main
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.keys import clean_url, keywords, normalise
from murmurlog.bundle.options import read_bounds, read_number, read_pairs, read_span
from murmurlog.cli.app import settings_of
from murmurlog.cli.audit import spec_arguments
from murmurlog.counting.public_sets.labels import read_labels
from murmurlog.counting.public_sets.result_lists import read_lists
from murmurlog.counting.public_sets.sets import read_pool
from murmurlog.errors import (
    BundleError,
    InputError,
    MurmurlogError,
    OtherVersion,
    Refused,
    UsageError,
)
from murmurlog.evaluation.label_files import read_doc_freq, read_planted
from murmurlog.logs.formats import DIALECTS, pieces
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.records import cut
from murmurlog.logs.screen import load, load_deny
from murmurlog.logs.source import find
from murmurlog.mechanisms import parse
from murmurlog.publishing.request import mechanism_of, read_by

PACKAGE = str(Path(murmurlog.__file__).parent)
SLOW = ("patterns files", "settings files", "specifications")  # a tenth of the inputs
TEXTS = (
    "threshold(noise=geometric, d=1, scale=1.0, T=20)",
    "threshold(noise=gaussian, d=10, scale=9.0, T=80)",
    "rounds(d=100, s=9.1_8.2, own=100_200, past=90, T=2000000000_9000000000, C=3.0, reach=1.3, focus=0.3)",
    "korolova(d=1, b=1.0, T=40, count=users)",
    "korolova(d=2, b=1.0, T=40, b_q=3.0, count=rows)",
    "korolova-lists(d=1, b_c=1.0)",
    "zealous(m=1, lam=1.0, tau=3, T=40, users=10)",
    "zealous-keywords(d=1, b=1.0, fakes=10.0)",
    "pool(d=1, b=1.0, N=100, T=5)",
    "sessions(l_s=1, l_q=2, subsequences=all, noise=geometric, scale=1.0, T=20)",
    "session-tree(l_s=1, l_q=3, s=2.0_1.5, own=1_2, past=1, T=9000000_19000000, C=3.0, sigma1=2.0, sigma_h=9.0)",
    "label-paths(l_s=1, l_q=2, subsequences=all, b=1.0, L=1, T=5)",
    "synthetic(d=2, scale=4, T=60, b_sizes=10, r=1, scale_r=5, T_r=70, b_hour=20)",
    "hong(objective=output, epsilon=1.0, delta=0.5, support=0.001, diversity=pairs)",
    "left-out(d=3, sigma=5.0)",
    "safelog-literal", "k-query:20", "k-session:5", "users-30",
)  # fmt: skip


@dataclass
class Explored:
    """How many inputs a target had, how many lines they reached, and what went wrong."""

    inputs: int = 0
    kept: int = 0
    lines: int = 0
    violations: list[str] = field(default_factory=list)


def _mechanism(content: bytes, _: Path) -> None:
    made = parse(content.decode("utf-8", "surrogateescape"))
    assert parse(str(made)) == made


def _certificate(content: bytes, _: Path) -> None:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return
    made = Certificate.from_json(data)
    stated = json.dumps(made.as_json(), allow_nan=False, ensure_ascii=False).encode()
    assert Certificate.from_json(json.loads(stated)) == made


def _flags(content: bytes, _: Path) -> None:
    given = content.decode("utf-8", "surrogateescape")
    readers: tuple[Callable[[str], Any], ...] = (
        read_number, read_by, read_bounds, read_span, mechanism_of, read_pairs("--set"),
    )  # fmt: skip
    for reader in readers:
        with suppress(UsageError):
            reader(given)


def _texts(content: bytes, _: Path) -> None:
    given = content.decode("utf-8", "replace")
    clean = normalise(given)
    assert clean is None or normalise(clean) == clean
    for word in keywords(clean or ""):
        assert word
    for level in ("host", "path", "full", "id"):
        clean_url(given, level)
    load_screen().hits(clean or "")


def load_screen() -> Any:
    return _SCREEN[0]


_SCREEN = [load(None)]


def _file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes, Path], None]:
    """A target that reads its input from a file of this name."""

    def target(content: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(content)
        read(path)

    return target


def _log(path: Path, **said: Any) -> None:
    source = find(str(path), SourceOptions(**said))
    dialect, broken = DIALECTS[source.format], dict[str, int]()
    for file, packing, encoding in zip(
        source.files, source.compressions, source.encodings, strict=True
    ):
        stream = pieces(file, packing)
        for _ in cut(stream, dialect, encoding=encoding, broken=broken, name=file.name):
            pass


def _keys(path: Path) -> None:
    _log(path, columns={"user": "user", "query": "query"})


def _excite(path: Path) -> None:
    _log(path, shape="excite")


def _stated() -> bytes:
    """A certificate as releases write it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.tsv"
        log.write_text(text("tsv", 200))
        murmurlog.release(
            str(log), out=Path(folder) / "b", tables=["query"],
            mechanism="threshold(noise=geometric, d=1, scale=1.0, T=24)",
        )  # fmt: skip
        return (Path(folder) / "b" / "privacy.json").read_bytes()


_LINES = b"a\tb\nc d\te\n"
_SETTINGS = b"[release]\nepsilon = 1.5\nmechanism = 'korolova'\nper-user = 2\ntables = ['query']\n[release.columns]\nuser = \"u\"\n[ledger]\nledger = 'l'\n"
_PATTERNS = b"[a]\nabout = 'x'\npatterns = ['\\d+', 'a|b']\ncheck = 'luhn'\nneeds = '0123'\n"
Target = tuple[Callable[[bytes, Path], None], Callable[[], tuple[bytes, ...]], tuple[type, ...]]
EXPLORED: dict[str, Target] = {
    "names of mechanisms": (_mechanism, lambda: tuple(text.encode() for text in TEXTS), (UsageError, Refused)),
    "manifests": (_certificate, lambda: (_stated(),), (BundleError, OtherVersion)),
    "values of flags": (_flags, lambda: (b"a=1,b=ln(2)", b"30m", b"query=20,click=10", b"1e5"), ()),
    "queries and urls": (_texts, lambda: (b"How to? 4111", b"http://u@a.example:80/x?y#z", "東京 ใน".encode()), ()),
    "reader of CSV": (_file("log.csv", _log), lambda: (text("csv").encode(),), (InputError,)),
    "reader of TSV": (_file("log.tsv", _log), lambda: (text("tsv").encode(), text("tsv").encode("utf-16")), (InputError,)),
    "reader of JSONL": (_file("log.jsonl", _keys), lambda: (text("jsonl").encode(),), (InputError,)),
    "reader of .gz": (_file("log.tsv.gz", _log), lambda: (packed(text("tsv").encode(), "gz"),), (InputError,)),
    "reader of shapes": (
        _file("log.txt", _excite),
        lambda: (b"1\t970916001949\tq\n" * 9, b"00:00:01\t2\t[q]\t1 2\ta.b\n" * 9,
                 b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n1\tq\t2006-03-01 00:00:01\t\t\n"),
        (InputError,),
    ),
    "specifications": (_file("spec.toml", spec_arguments), lambda: (_SETTINGS,), (UsageError,)),
    "settings files": (_file("murmurlog.toml", settings_of), lambda: (_SETTINGS,), (UsageError,)),
    "patterns files": (_file("p.toml", load), lambda: (_PATTERNS,), (UsageError,)),
    "denied queries": (_file("deny.txt", load_deny), lambda: (b"a\nb *\n",), (UsageError,)),
    "pools": (_file("pool.txt", read_pool), lambda: (_LINES, b"a\nb\n"), (InputError,)),
    "result lists": (_file("l.txt", lambda path: read_lists(path, url="path")), lambda: (_LINES,), (InputError,)),
    "labels": (_file("m.txt", lambda path: read_labels(str(path))), lambda: (_LINES,), (InputError,)),
    "lengths of postings": (_file("d.txt", read_doc_freq), lambda: (b"a\t1\nb\t22\n",), (InputError,)),
    "planted truth": (_file("l.csv", read_planted), lambda: (b"kind,query,target\na,b,c\n",), (InputError,)),
}  # fmt: skip


_KEYS = (
    b"epsilon", b"delta", b"unit", b"neighbours", b"mechanism", b"tables", b"per-user", b"noise", b"set",
    b"split", b"measure", b"rounds", b"count-share", b"set-only", b"shares", b"gap", b"about", b"where", b"by",
    b"users", b"strict", b"about", b"patterns", b"check", b"needs",
)  # fmt: skip
_TOML = (
    b"1", b"-1", b"0.5", b"nan", b"inf", b"9" * 400, b"''", b"'x'", b"'query=2'", b"'a=1,b=2'", b"'a=,=b'", b"true",
    b"[]", b"[1, 2]", b"['query', 'click']", b"[[]]", b"{a = 1}", b"{query = 'rounds'}", b"2026-01-01", b"'ln(2)'",
    b"'threshold(d=1)'", b"'query=rounds,click=threshold'", b"'\\'", b'"\\u0000"', b"'row'", b"'replace'",
)  # fmt: skip


def _changed(content: bytes, choice: random.Random) -> bytes:
    """The input with bytes changed, or, if it is JSON or TOML, most often with a value exchanged."""
    lines = content.split(b"\n")
    settings = [n for n, line in enumerate(lines) if b" = " in line]
    if settings and choice.random() < 0.8:
        for _ in range(choice.randint(1, 3)):
            line = choice.choice(settings)
            key = choice.choice((lines[line].split(b" = ")[0], choice.choice(_KEYS)))
            lines[line] = key + b" = " + choice.choice(_TOML)
        return b"\n".join(lines)
    try:
        data = json.loads(content) if choice.random() < 0.8 else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        return mutated(content, choice)
    for _ in range(choice.randint(1, 3)):
        at = choice.choice(list(paths(data))[1:] or [()])
        data = put(data, at, choice.choice(VALUES)) if at else data
        if not isinstance(data, dict):
            break
    return as_text(data).encode("utf-8", "surrogatepass")


def explore(name: str, *, seed: int = 1, inputs: int = 2000) -> Explored:
    """Gives a target changed inputs; those that reach new lines are changed further."""
    target, seeds, allowed = EXPLORED[name]
    if name in SLOW:
        inputs = -(-inputs // 10)
    choice, found = random.Random(f"{seed} {name}"), Explored()
    corpus, reached = list(seeds()), set[tuple[str, int]]()
    sound = len(corpus)  # these must be taken, or nothing behind the first refusal is ever reached

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return watch

    with tempfile.TemporaryDirectory() as folder:
        for turn in range(inputs):
            content = (
                corpus[turn] if turn < len(corpus) else _changed(choice.choice(corpus), choice)
            )
            known = len(reached)
            sys.settrace(watch)
            try:
                target(content, Path(folder))
            except MurmurlogError as error:
                if not isinstance(error, allowed) or turn < sound:
                    found.violations.append(f"{type(error).__name__}: {content[:80]!r}")
            except Exception as error:
                found.violations.append(
                    f"{type(error).__name__} ({error!s:.80}): {content[:300]!r}"
                )
            finally:
                sys.settrace(None)
            found.inputs += 1
            if len(reached) > known and len(content) < 1 << 16:
                corpus.append(content)
                found.kept += 1
    found.lines = len(reached)
    return found

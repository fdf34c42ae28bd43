"""Settings, parameters and public files that somebody else wrote or that were mistyped."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cases import Case, Content, bomb, mutated, packed, release, text, writes

from murmurlog.cli.main import app

USAGE = frozenset({2})
ANY = frozenset({0, 2, 3, 4})
VALUES = (
    "", " ", "0", "-1", "nan", "inf", "-inf", "1e999", "1e-400", "1e-300", "1e19", "9223372036854775808", "0.5", "9" * 25, "9" * 5000, "ln(0)", "ln(-1)",
    "ln(ln(2))", "1_0", "0x10", "\u0663", "a=b=c", "=", ",,,", "a=1,a=2", "../../x", "'; DROP TABLE raw",
    "%s%n", "{0}", "\udcff", "\u202e", "\x1b[2J", "x" * 70_000, "true", "query", "query=1", "user=user",
    "per-user=inf", "threshold=1e308,1", "epsilon=inf", "k=0.5",
)  # fmt: skip
# Flags that name what is written, and those that start other machines.
LEFT_OUT = {
    "--out",
    "--ledger",
    "--master",
    "--scratch",
    "--picture",
    "--version",
    "--help",
    "--config",
}
SETTINGS = {
    "no byte": "", "no TOML": "[[[", "only NUL": "\x00" * 99, "unknown section": "[nothing]\na = 1",
    "unknown key": "[release]\nnothing = 1", "no section": "epsilon = 1", "a section that is a value": "release = 1",
    "deep": "a = " + "[" * 20_000, "deep tables": "[" + "a." * 5000 + "a]", "deep values": "[release]\nwhere = " + "{a = " * 3000,
    "a huge number": "[release]\nepsilon = " + "9" * 9000, "no number": "[release]\nepsilon = 'x'",
    "infinite": "[release]\nepsilon = inf", "nan": "[release]\ndelta = nan", "a list": "[release]\nepsilon = [1, 2]",
    "a table": "[release.epsilon]\na = 1", "a date": "[release]\nepsilon = 2026-01-01", "a truth": "[release]\nepsilon = true",
    "a flag that is no truth": "[release]\nstrict = 'perhaps'", "repeated": "[release]\nseed = 1\nseed = 2",
    "control characters": "[release]\nurl = \"\\u001b[2J\"", "surrogates": "[release]\nengine = \"\\ud800\"",
    "a command in a name": "['\\u001b[2J']\na = 1", "columns": "[release.columns]\nuser = 'a\"; DROP TABLE raw; --'",
}  # fmt: skip


def files(choice: random.Random, share: float) -> Iterator[Case]:
    """Every kind; `share` says how many of those that are drawn."""
    yield from _settings(choice, share)
    yield from _parameters(choice, share)
    yield from _public(choice, share)


def _with_log(*others: Callable[[Path], None]) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        for each in (writes("log.tsv", text("tsv")), *others):
            each(root)

    return make


def _settings(choice: random.Random, share: float) -> Iterator[Case]:
    given: dict[str, Content] = {
        **SETTINGS,
        "no UTF-8": b"\xff\xfe[release]",
        "random": choice.randbytes(999),
    }
    right = {"no byte": frozenset({0}), "columns": frozenset({0, 4})}
    for what, content in given.items():
        make = _with_log(writes("murmurlog.toml", content))
        yield Case("settings", what, make, release("log.tsv"), right.get(what, USAGE))

    def folder(root: Path) -> None:
        (root / "settings").mkdir()

    for path in ("settings", "nothing.toml", "\udcff", "x" * 5000, ""):
        arguments = ("--config", path, *release("log.tsv"))
        yield Case("settings", f"--config {path[:20]!a}", _with_log(folder), arguments,
                   USAGE if path else frozenset({0, 2}))  # fmt: skip
    sound = b'[release]\nepsilon = 1.5\ntables = [\'query\']\nurl = "host"\n[release.columns]\nuser = "user"\n'
    for n in range(round(60 * share)):
        changed = writes("murmurlog.toml", mutated(sound, choice))
        yield Case("settings", f"changed {n}", _with_log(changed), release("log.tsv"), ANY)


def _commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in app.commands.items():
        if hasattr(command, "commands"):
            for own, each in command.commands.items():
                yield (name, own), each
        else:
            yield (name,), command


def _parameters(choice: random.Random, share: float) -> Iterator[Case]:
    """Every value after every flag. What would be long to do is done dry or small."""
    start: dict[tuple[str, ...], tuple[str, ...]] = {
        ("release",): ("log.tsv", "--out", "out/b", "--dry-run"),
        ("plan",): (),
        ("profile",): ("log.tsv",),
        ("verify",): ("nothing",),
        ("export",): ("nothing", "--to", "tsv", "--out", "out/e"),
        ("estimate",): ("nothing",),
        ("ledger", "show"): ("--ledger", "books/l.db"),
        ("ledger", "export"): ("--ledger", "books/l.db"),
        ("ledger", "cap"): ("web", "--epsilon", "1", "--delta", "1e-6", "--ledger", "books/l.db"),
        ("ledger", "require-cap"): ("--ledger", "books/l.db"),
        ("ledger", "statement"): ("web", "--out", "out/s.html", "--ledger", "books/l.db"),
        ("generate",): ("--rows", "50", "--out", "out/log.csv"),
        ("pool",): ("--from", "log.tsv", "--size", "10", "--out", "out/pool.txt"),
        ("evaluate",): ("log.tsv", "--out", "out/r.html", "--baselines", "raw", "--tasks", "statistics", "--folds", "1"),
        ("sweep",): ("log.tsv", "--out", "out/s", "--mechanisms", "threshold", "--vary", "epsilon=1"),
        ("audit",): ("--mechanism", "threshold", "--trials", "30"),
    }  # fmt: skip
    parts: dict[tuple[str, ...], float] = {
        ("release",): 0.2,
        ("evaluate",): 0.08,
        ("sweep",): 0.06,
        ("audit",): 0.06,
    }
    for name, command in _commands():
        if name not in start:
            continue
        for parameter in command.params:
            flag = next((o for o in parameter.opts if o.startswith("--")), None)
            if flag is None or flag in LEFT_OUT or parameter.is_flag:
                continue
            if (flag, name) == ("--labels", ("generate",)):  # which it writes
                continue
            for value in VALUES:
                if choice.random() < parts.get(name, 0.3) * share:
                    arguments = (*name, *start[name], flag, value)
                    codes = {0, 1, 2, 3, 4, 5, 6} if "engine" in flag else {0, 1, 2, 3, 4, 6}
                    yield Case("parameters", f"{' '.join(name)} {flag} {value[:20]!a}",
                               _with_log(), arguments, frozenset(codes))  # fmt: skip
    for value in VALUES:
        for place in ((value,), ("release", value), ("verify", value), ("ledger", value)):
            yield Case(
                "parameters",
                f"{place[0][:9]!a} {value[:20]!a}",
                _with_log(),
                place,
                frozenset({2, 4, 6}),
            )
    for value in ("threshold(", "threshold()", "threshold(d=1)", "rounds(d=9e99)", "k-query:" + "9" * 99,
                  "threshold(d=1, d=2)", "(" * 5000, "pool(N=1)", "\u202e", "a" * 70_000, "threshold(scale=nan, d=1, T=3)"):  # fmt: skip
        arguments = ("release", "log.tsv", "--out", "out/b", "--mechanism", value)
        yield Case(
            "parameters", f"mechanism {value[:20]!a}", _with_log(), arguments, frozenset({2, 3})
        )
        yield Case(
            "parameters",
            f"plan {value[:20]!a}",
            _with_log(),
            ("plan", "--mechanism", value),
            frozenset({2, 3}),
        )


def _public(choice: random.Random, share: float) -> Iterator[Case]:
    """Files that are said to be public: pools, lists, labels, denied queries, patterns."""
    lines = b"".join(b"common %d\ta.example\n" % n for n in range(40))
    single = b"".join(b"common %d\n" % n for n in range(40))
    flags: dict[str, tuple[bytes, tuple[str, ...], frozenset[int]]] = {
        "--pool": (single, ("--mechanism", "pool", "--tables", "query", "--epsilon", "2"), ANY),
        "--map": (lines, ("--mechanism", "sessions", "--tables", "session", "--epsilon", "2"), ANY),
        "--result-lists": (lines, ("--mechanism", "korolova", "--tables", "query,click", "--epsilon", "2"), ANY),
        "--deny": (single, ("--mechanism", "threshold(d=1, scale=1.0, T=24)", "--tables", "query"), ANY),
        "--patterns": (b"[a]\npatterns = ['\\d+']\n", ("--mechanism", "threshold(d=1, scale=1.0, T=24)", "--tables", "query"), ANY),
    }  # fmt: skip

    def run(
        flag: str,
        what: str,
        name: str,
        content: Content,
        more: tuple[str, ...],
        codes: frozenset[int],
    ) -> Case:
        arguments = ("release", "log.tsv", "--out", "out/b", *more, flag, name)
        return Case(
            "public files", f"{flag} {what}", _with_log(writes(name, content)), arguments, codes
        )

    def folder(root: Path) -> None:
        (root / "folder").mkdir()
        (root / "loop").symlink_to("loop")

    for flag, (sound, more, codes) in flags.items():
        for what, content in {
            "no byte": b"", "NUL": b"\x00" * 999, "no UTF-8": b"\xff\xfe\n" * 9, "a mark": b"\xef\xbb\xbf" + sound,
            "lone CR": sound.replace(b"\n", b"\r"), "only line ends": b"\n" * 99, "random": choice.randbytes(2000),
            "a line of 20 MB": sound + b"x" * 20_000_000, "one star": b"*\n", "tabs": b"\t" * 999, "spaces": b" \n" * 9,
            "surrogates": b"\xed\xa0\x80\n", "formulas": b"=cmd()\t=cmd()\n", "terminal": b"\x1b[2J\t\x1b[2J\n",
            "two labels": b"\x1b]0;a\tx\n\x1b]0;a\ty\n",
        }.items():  # fmt: skip
            yield run(flag, what, "public.txt", content, more, codes)
        for name in ("folder", "loop", "nothing", "\udcff", "x" * 5000, ""):
            arguments = ("release", "log.tsv", "--out", "out/b", *more, flag, name)
            yield Case(
                "public files",
                f"{flag} {name[:9]!a}",
                _with_log(folder),
                arguments,
                frozenset({2, 4}),
            )
        for n in range(round(25 * share)):
            yield run(flag, f"changed {n}", "public.txt", mutated(sound, choice), more, codes)
    sound, more, codes = flags["--pool"]
    for how in ("gz", "zst"):
        yield run(
            "--pool", f"cut {how}", f"p.{how}", packed(sound * 99, how)[:-9], more, frozenset({4})
        )

        def bombed(how: str = how) -> bytes:
            return bomb(b"\n" * (1 << 24), 40, how)

        yield run("--pool", f"bomb {how}", f"p.{how}", bombed, more, frozenset({4}))
    bombs = (
        r"(a+)+$",
        r"(a|a)*b",
        r"(\\w*)*x",
        r"(.*a){30}",
        r"(\\d+)+y",
        r"a*a*a*a*a*a*a*b",
        r"((a?){60})a{60}",
    )
    _, more, _ = flags["--patterns"]
    log = text("tsv") + "".join(f"v{n}\t2026-01-01\t{c * 60}\tx\n" for n, c in enumerate("a1 b."))
    for n, pattern in enumerate(bombs):
        patterns = f"[bomb]\npatterns = ['{pattern}']\n".replace("\\\\", "\\")
        arguments = ("release", "log.tsv", "--out", "out/b", *more, "--patterns", "p.toml")
        make = _with_log(writes("p.toml", patterns), writes("log.tsv", log))
        yield Case("regular expressions", f"bomb {n}", make, arguments, frozenset({0, 2}))

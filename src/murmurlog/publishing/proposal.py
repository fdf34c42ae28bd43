"""Settings for the releases of a log, as `init` proposes them to its owner, and the file they go to.

How the log is read comes from its rows, so it is a proposal that the owner accepts (A8); what is said
about it in public comes from the owner alone. The number of users is never counted: a number that is
declared must be public.
"""

import json
import os
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from murmurlog.bundle.certificate import check_lines
from murmurlog.bundle.scratch import scratch, settle
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.inspection.inspect import Column, Inspection
from murmurlog.logs.inspection.trial import Trial
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_filter import CAP_DELTA, CAP_EPSILON, PURE_SHARE
from murmurlog.publishing.ledger_names import check_name, check_new, list_names
from murmurlog.publishing.ledger_records import Account

TOML = "murmurlog.toml"
LEDGER = "murmurlog-ledger.db"
EPSILON, DELTA = 1.0, 1e-6
LEAST_CAP = 1 / (
    1 - PURE_SHARE
)  # times epsilon of a release: its noise must fit beside the pure part
READERS = ("profile", "evaluate", "sweep")  # commands that read the log as `release` does


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the rows of a log do not say."""

    title: str | None = None
    publisher: str | None = None
    license: str | None = None
    users: int | None = None  # publicly known, at most so many
    epsilon: float = EPSILON  # of each release
    ledger: Path | None = None  # None: releases are not booked
    source_name: str = ""  # of the population of users, in the ledger; empty: not decided yet
    new_source: bool = False  # whether no source that the ledger has is about these users
    cap_epsilon: float = CAP_EPSILON  # of all releases
    cap_delta: float | None = None  # None: by the number of users

    def __post_init__(self) -> None:
        check_lines(list(self.about.values()))
        if self.users is not None and self.users < 1:
            raise UsageError(f"the number of users is at least 1, not {self.users}")
        if not 0 < self.epsilon < float("inf"):
            raise UsageError(f"epsilon is above 0 and finite, not {self.epsilon}")
        if self.ledger is not None:
            if self.source_name:
                check_name(self.source_name)
            if self.cap_epsilon < LEAST_CAP * self.epsilon:
                raise UsageError(
                    f"epsilon {self.epsilon:g} of a release does not fit a cap of {self.cap_epsilon:g} for all "
                    f"releases, a third of\n  which is for pure releases: it needs {LEAST_CAP * self.epsilon:g}"
                )

    @property
    def about(self) -> dict[str, str]:
        """What the cards of a bundle say."""
        texts = {"title": self.title, "publisher": self.publisher, "license": self.license}
        return {name: text for name, text in texts.items() if text}

    @property
    def whole_delta(self) -> float:
        """The delta of all releases: well below one over the number of users."""
        if self.cap_delta is not None:
            return self.cap_delta
        return CAP_DELTA if self.users is None else min(CAP_DELTA, 1 / (10 * self.users))

    @property
    def delta(self) -> float:
        """The delta of one release."""
        return min(DELTA, float(f"{self.whole_delta / 10:.3g}"))


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """How a log may be released: what was found in it, and the settings that follow.

    What was found is for the owner's eyes only.
    """

    source: str  # as the owner gave it; of an object, its kind
    name: str  # for a source in the ledger, if there is none yet
    is_table: bool = False  # an object with its rows
    inspection: Inspection  # of the source, or of a copy of it
    reading: Mapping[str, Any]  # the reader's options by keyword
    trial: Trial
    answers: Answers
    out: Path | None = None  # where the settings were written

    @property
    def columns(self) -> tuple[Column, ...]:
        """Every column, with its role and a few values."""
        return self.inspection.columns

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The sections of murmurlog.toml."""
        answers = self.answers
        read = {name.replace("_", "-"): _plain(value) for name, value in self.reading.items()}
        release: dict[str, Any] = {"epsilon": answers.epsilon, "delta": answers.delta}
        if answers.users is not None:
            release["users"] = answers.users
        if Path("bundle").exists():
            release["out"] = _free("bundle")
        booking: dict[str, Any] = {}
        if answers.ledger is not None:
            booking = {"ledger": str(answers.ledger), "source": answers.source_name}
        about = {"about": answers.about} if answers.about else {}
        sections = {"release": {**release, **booking, **read, **about}}
        sections |= {name: dict(read) for name in READERS}
        if answers.ledger is not None:
            sections["ledger"] = {"ledger": str(answers.ledger)}
        return {name: section for name, section in sections.items() if section}

    @property
    def keywords(self) -> dict[str, Any]:
        """The settings of a release as `murmurlog.release` takes them."""
        release = {
            name.replace("-", "_"): value for name, value in self.settings["release"].items()
        }
        if "source" in release:
            release["source_name"] = release.pop("source")
        return {"out": "bundle", **release}

    @property
    def command(self) -> str:
        """The command that makes the first release; of an object, the call in Python."""
        if self.is_table:
            keywords = "".join(f", {name}={value!r}" for name, value in self.keywords.items())
            return f"murmurlog.release(log{keywords})"
        here = self.out is None or self.out == Path(TOML)
        config = "" if here else f"--config {shlex.quote(str(self.out))} "
        return f"murmurlog {config}release {shlex.quote(self.source)}"

    def as_json(self) -> dict[str, Any]:
        """For the owner: no value of the log, but numbers about its rows."""
        inspection, trial = self.inspection, self.trial
        return {
            "source": self.source,
            "format": inspection.format,
            "encoding": inspection.encoding.name if inspection.encoding else None,
            "delimiter": inspection.delimiter.character if inspection.delimiter else None,
            "time_format": self.reading.get("time_format"),
            "columns": {column.name: column.role for column in inspection.columns},
            "doubts": list(inspection.doubts),
            "rows": trial.rows,
            "broken": dict(trial.broken),
            "broken_share": trial.share,
            "sampled": trial.sampled,
            "failure": trial.failure,
            "settings": self.settings,
            "out": str(self.out) if self.out else None,
            "next": self.command,
        }

    def __repr__(self) -> str:
        roles = ", ".join(f"{role}={name}" for role, name in self.inspection.roles.items())
        where = f"written to {self.out}" if self.out else "not written"
        return (
            f"Proposal for {self.source}, for your eyes only\n"
            f"  columns: {roles}\n"
            f"  reading: {dict(self.reading)}\n"
            f"  rows: {self.trial.rows:,}, unreadable {self.trial.share:.1%}\n"
            f"  {where}; next: {self.command}"
        )

    def toml(self) -> str:
        """The content of murmurlog.toml, with comments."""
        return write_toml(self)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _free(name: str) -> str:
    number = 2
    while Path(f"{name}-{number}").exists():
        number += 1
    return f"{name}-{number}"


WHY = {
    "epsilon": "The privacy budget of one release, per user. Smaller protects more and publishes less.",
    "delta": "The chance that epsilon does not hold: far below one over the number of users.",
    "users": "A publicly known number (upper bound) of users. Never count your log for it.",
    "out": "The folder of the bundle; it must not exist.",
    "ledger": "Every release is booked here, and refused if it exceeds the cap of the source.",
    "source": "The population of users, as the ledger calls it: the same for all its logs.",
    "format": "How the file is written, whatever its name.",
    "delimiter": "Between the fields of a line.",
    "encoding": "Of the text.",
    "columns": "Which column is what.",
    "time-format": "Of the times, as in strptime. Times without a zone are taken for UTC.",
    "missing": "What stands for no value.",
    "url": "Clicks are ids of documents, published as they are; without this line they are cut as urls.",
    "shape": "The files of a well-known log.",
    "about": "What the cards of the bundle say.",
}
HEAD = """\
# Settings of murmurlog for {source}, proposed by `murmurlog init`.
# A section for each command, a line for each flag; flags on the command line come first.
#
# How the log is read was proposed from its rows. The guarantee takes these lines for facts about your
# system that no single user can change: check them before the first release, and keep them for the
# next ones.
"""


def write_toml(proposal: Proposal) -> str:
    """The sections as TOML, with a comment for each setting of a release."""
    lines = [HEAD.format(source=_one_line(proposal.source))]
    for section, values in proposal.settings.items():
        lines.append(f"[{section}]")
        for name, value in values.items():
            if section == "release":
                lines.append(f"# {WHY[name]}")
            lines.append(f"{name} = {_toml(value)}")
        if section == "release":
            lines += [f"# {line}" for line in _commented_lines(proposal.answers)]
        lines.append("")
    return "\n".join(lines)


def _commented_lines(answers: Answers) -> list[str]:
    """Settings that the owner may want, commented out."""
    lines = []
    if answers.users is None:
        lines += [WHY["users"], "users = 10000"]
    if missing := [name for name in ("title", "publisher", "license") if name not in answers.about]:
        lines.append(f"For the cards, in about: {', '.join(missing)}.")
    return lines


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _toml(value: Any) -> str:
    """A value of murmurlog.toml: JSON, but for tables."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(name)} = {_toml(item)}" for name, item in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else json.dumps(name)


def ledger_of(settings: Path) -> Path | None:
    """The ledger that a file of settings names, if there is one."""
    try:
        stated = tomllib.loads(settings.read_text(encoding="utf-8"))["release"]["ledger"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return Path(stated) if isinstance(stated, str) else None


def check_out(out: Path, *, force: bool) -> None:
    """Raises unless the settings can be written there."""
    if out.suffix != ".toml":
        raise UsageError(f"--out {out.name} must end in .toml: it holds settings of commands")
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )
    if not os.access(out.parent, os.W_OK):
        raise UsageError(f"--out {str(out)!r}: the folder {str(out.parent)!r} is not writable")
    if out.is_symlink() or (out.exists() and not (force and out.is_file())):
        raise UsageError(
            f"{str(out)!r} exists: give --force to replace it, or another file with --out"
        )


def sources_in(answers: Answers) -> list[str]:
    """The name of every source of the ledger; raises if the ledger is unusable."""
    return (
        []
        if answers.ledger is None
        else [account.name for account in Ledger(answers.ledger).accounts()]
    )


def account_of(answers: Answers) -> Account | None:
    """The account of the source in the ledger, if there is one; raises if the ledger is unusable."""
    if answers.ledger is None or not answers.source_name:
        return None
    return Ledger(answers.ledger).find_account(answers.source_name)


def propose_source(answers: Answers, name: str) -> str:
    """The source to propose: the one that the ledger has, so that its users get no second budget.

    Of a ledger without sources, or if the users are new, the name; of several sources none: empty.
    """
    names = sources_in(answers)
    if not names or answers.new_source:
        return answers.source_name or name
    if account := account_of(answers):
        return account.name
    return names[0] if len(names) == 1 else ""


def check_source(answers: Answers) -> None:
    """Refuses another source in a ledger that has some, unless the owner says that its users are others."""
    account = account_of(answers)  # raises for a name that is nearly a known one
    if answers.ledger is None or answers.new_source or account is not None:
        return
    names = sources_in(answers)
    if answers.source_name:
        check_new(answers.source_name, names, ledger=answers.ledger.name)
    else:
        raise UsageError(
            f"{answers.ledger.name} has {len(names)} sources: {list_names(names)}. Name the one that these users are "
            "in with --source; if they are in\n  none of them, give --new-source."
        )


def write(proposal: Proposal, out: Path, *, force: bool = False) -> Proposal:
    """Writes the settings, and the cap to the ledger unless the source has one there.

    Raises if a release could not read the log with these settings.
    """
    check_out(out, force=force)
    if proposal.trial.failure:
        raise InputError(proposal.trial.failure)
    answers, written = proposal.answers, replace(proposal, out=out)
    check_source(answers)
    account = account_of(answers)
    with scratch(out.parent) as folder:
        new = folder / out.name
        new.write_text(written.toml(), encoding="utf-8")
        if answers.ledger is not None and (account is None or account.epsilon_cap is None):
            Ledger(answers.ledger).cap(
                answers.source_name, epsilon=answers.cap_epsilon, delta=answers.whole_delta,
                new_source=answers.new_source,
            )  # fmt: skip
        settle(new, out)
    return written

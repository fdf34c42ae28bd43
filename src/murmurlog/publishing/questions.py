"""The questions that `init` asks the owner of a log; Enter takes the proposal."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import read_number
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.logs.columns import NONE, ROLES
from murmurlog.logs.delimiters import check_delimiter
from murmurlog.logs.encodings import check_encoding
from murmurlog.logs.inspection.inspect import inspect
from murmurlog.logs.inspection.trial import try_reading
from murmurlog.logs.times import check_time_format
from murmurlog.publishing.proposal import (
    LEAST_CAP,
    Answers,
    Proposal,
    account_of,
    propose_source,
    sources_in,
)


class Dialog:
    """Asks at the keyboard: questions on stderr, answers from stdin."""

    def tell(self, text: str) -> None:
        """Prints a line."""
        print(text, file=sys.stderr)

    def show(self, proposal: Proposal) -> None:
        """Prints what was found in the log."""
        self.tell(repr(proposal))

    def ask(self, question: str, default: str) -> str:
        """The answer, without white space around it; the default if there is none."""
        proposal = f" [{default}]" if default else ""
        print(f"{question}{proposal}: ", end="", file=sys.stderr, flush=True)
        try:
            return input().strip() or default
        except EOFError:
            raise UsageError(
                "the answers ended before the questions: nothing was written. Give --yes to take the "
                "proposals"
            ) from None

    def value(self, question: str, default: str, read: Callable[[str], Any]) -> Any:
        """The answer as a value; asks again until there is one."""
        while True:
            text = self.ask(question, default)
            try:
                return read(text)
            except (ValueError, InputError, Refused) as error:
                self.tell(f"  {error}")

    def choose(self, question: str, choices: Sequence[str]) -> str:
        """One of the choices, by its number or as it is written; the first is the default."""
        for number, choice in enumerate(choices, 1):
            self.tell(f"  {number}  {choice}")

        def read(text: str) -> str:
            if text.isdecimal() and 1 <= int(text) <= len(choices):
                return choices[int(text) - 1]
            if text in choices:
                return text
            raise UsageError(f"answer with a number from 1 to {len(choices)}")

        return str(self.value(question, "1", read))

    def agree(self, question: str) -> bool:
        """Whether the owner agrees."""
        words = {"y": True, "yes": True, "n": False, "no": False}

        def read(text: str) -> bool:
            if text.lower() not in words:
                raise UsageError("answer y or n")
            return words[text.lower()]

        return bool(self.value(f"{question} y or n", "y", read))


def ask_owner(
    made: Proposal, dialog: Dialog, *, say: Callable[[str], None] = lambda _: None
) -> Proposal:
    """The proposal as the owner wants it."""
    made = _settle(made, dialog, say)
    dialog.show(made)
    while not dialog.agree("Read the log this way?"):
        made = _change(made, dialog, say)
        dialog.show(made)
    dialog.tell("What follows the rows do not say. Enter takes the proposal; - leaves it out.")
    return replace(made, answers=_ask_answers(made.answers, made.name, dialog))


def _settle(made: Proposal, dialog: Dialog, say: Callable[[str], None]) -> Proposal:
    """The proposal without doubts about what the rows leave open."""
    encoding = made.inspection.encoding
    if encoding and encoding.others:
        name = dialog.choose("Encoding", (encoding.name, *encoding.others))
        made = _again(made, say, encoding=name)
    time = made.inspection.time
    if time and time.others:
        dialog.tell("The times can be read in more than one way:")
        # The standard format is read where none is given.
        names = {form or "ISO 8601 or Unix time": form for form in (time.format, *time.others)}
        chosen = names[dialog.choose("Format of times", tuple(names))]
        made = _reading(made, say, time_format=chosen or None)
    return made


def _again(made: Proposal, say: Callable[[str], None], **given: str) -> Proposal:
    """The proposal after another look at the log, with what the owner says."""
    found = inspect(made.inspection.source, **given)
    return replace(
        made,
        inspection=found,
        reading=found.settings,
        trial=try_reading(found, found.settings, say=say),
    )


def _reading(made: Proposal, say: Callable[[str], None], **changed: Any) -> Proposal:
    """The proposal with other options of the reader; None takes one out."""
    merged = {**made.reading, **changed}
    reading = {name: value for name, value in merged.items() if value is not None}
    return replace(made, reading=reading, trial=try_reading(made.inspection, reading, say=say))


def _change(made: Proposal, dialog: Dialog, say: Callable[[str], None]) -> Proposal:
    """The proposal with each of the reader's options as the owner answers."""
    found = made.inspection
    given = {}
    if found.encoding:
        given["encoding"] = dialog.value("Encoding", found.encoding.name, check_encoding)
    if found.delimiter:
        given["delimiter"] = dialog.value("Delimiter", found.delimiter.name, check_delimiter)
    before = (found.encoding and found.encoding.name, found.delimiter and found.delimiter.character)
    if given and (given.get("encoding"), given.get("delimiter")) != before:
        made = _again(made, say, **given)
    roles = {}
    for role in ROLES:
        roles[role] = _ask_column(made, role, dialog)
    changed: dict[str, Any] = {"columns": roles}
    if roles["url"] != made.inspection.roles.get("url"):  # of another column nothing is known
        changed["url"] = None
    if roles["time"] != NONE:
        current = made.reading.get("time_format") or "ISO"

        def read(text: str) -> str | None:
            return None if text.lower() == "iso" else check_time_format(text)

        changed["time_format"] = dialog.value("Format of times (ISO or strptime)", current, read)
    return _reading(made, say, **changed)


def _ask_column(made: Proposal, role: str, dialog: Dialog) -> str:
    names = [column.name for column in made.columns]
    required = role in ("user", "query")

    def read(text: str) -> str:
        if text in names or (text == NONE and not required):
            return text
        raise UsageError(f"columns are {', '.join(names)}" + ("" if required else "; or none"))

    default = made.reading.get("columns", made.inspection.roles).get(role, NONE)
    return str(dialog.value(f"Column of the {role}", default, read))


def _ask_answers(said: Answers, source_name: str, dialog: Dialog) -> Answers:
    """What the rows do not say, as the owner answers."""
    for name, question in {
        "title": "Title",
        "publisher": "Publisher",
        "license": "Licence (such as CC-BY-4.0)",
    }.items():
        said = _ask(said, dialog, name, question, getattr(said, name) or "-", _text)
    dialog.tell("A number of users only if it is public already: never count your log for it.")
    users = "-" if said.users is None else str(said.users)
    said = _ask(said, dialog, "users", "Publicly known number of users, at most", users, _number)
    said = _ask(
        said, dialog, "epsilon", "Epsilon of each release", f"{said.epsilon:g}", read_number
    )
    said = _ask(said, dialog, "ledger", "Ledger file", str(said.ledger or "-"), _path)
    if said.ledger is None:
        return said
    said = _ask_source(said, propose_source(said, source_name), dialog)
    if (account := account_of(said)) and account.epsilon_cap is not None:
        dialog.tell(f"The ledger has a cap for {said.source_name}, which stays as it is.")
        return said
    caps = f"{said.cap_epsilon:g}"
    said = _ask(said, dialog, "cap_epsilon", "Cap: epsilon of all releases", caps, read_number)
    return _ask(
        said,
        dialog,
        "cap_delta",
        "Cap: delta of all releases",
        f"{said.whole_delta:g}",
        read_number,
    )


def _ask_source(said: Answers, proposal: str, dialog: Dialog) -> Answers:
    """The answers with the source: one that the ledger has, or a new one whose name the owner types."""
    names = sources_in(said)
    if names:
        dialog.tell(
            f"{said.ledger} has a budget for each of these sources. Another name opens one more: only for users "
            "that are in none of them."
        )
    for number, name in enumerate(names, 1):
        dialog.tell(f"  {number}  {name}")

    def read(text: str) -> Answers:
        if text not in names and text.isdecimal() and 1 <= int(text) <= len(names):
            text = names[int(text) - 1]
        if not text:
            raise UsageError(f"answer with a number from 1 to {len(names)}, or with a name")
        named = replace(said, source_name=text)
        account = account_of(named)
        if account is not None:
            return replace(named, source_name=account.name, new_source=False)
        return replace(named, new_source=bool(names))

    question = "Name of the source (the population of users)"
    answers: Answers = dialog.value(question, proposal, read)
    return answers


def _ask(
    said: Answers,
    dialog: Dialog,
    name: str,
    question: str,
    default: str,
    read: Callable[[str], Any],
) -> Answers:
    """The answers with one more; what does not fit the others is asked again."""

    def fit(text: str) -> Answers:
        changed = {name: read(text)}
        if name == "epsilon":  # the cap is asked for later
            changed["cap_epsilon"] = max(said.cap_epsilon, LEAST_CAP * changed[name])
        answers = replace(said, **changed)
        account_of(answers)
        return answers

    return dialog.value(question, default, fit)  # type: ignore[no-any-return]


def _text(text: str) -> str | None:
    return None if text == "-" else text


def _number(text: str) -> int | None:
    return None if text == "-" else integer(text)


def _path(text: str) -> Path | None:
    return None if text == "-" else Path(text)

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
    proposal: Proposal, dialog: Dialog, *, say: Callable[[str], None] = lambda _: None
) -> Proposal:
    """The proposal as the owner wants it."""
    proposal = _resolve_doubts(proposal, dialog, say)
    dialog.show(proposal)
    while not dialog.agree("Read the log this way?"):
        proposal = _change(proposal, dialog, say)
        dialog.show(proposal)
    dialog.tell("What follows the rows do not say. Enter takes the proposal; - leaves it out.")
    return replace(proposal, answers=_ask_answers(proposal.answers, proposal.name, dialog))


def _resolve_doubts(proposal: Proposal, dialog: Dialog, say: Callable[[str], None]) -> Proposal:
    """The proposal without doubts about what the rows leave open."""
    encoding = proposal.inspection.encoding
    if encoding and encoding.others:
        name = dialog.choose("Encoding", (encoding.name, *encoding.others))
        proposal = _inspect_again(proposal, say, encoding=name)
    time = proposal.inspection.time
    if time and time.others:
        dialog.tell("The times can be read in more than one way:")
        # The standard format is read where none is given.
        names = {form or "ISO 8601 or Unix time": form for form in (time.format, *time.others)}
        chosen = names[dialog.choose("Format of times", tuple(names))]
        proposal = _read_again(proposal, say, time_format=chosen or None)
    return proposal


def _inspect_again(proposal: Proposal, say: Callable[[str], None], **changes: str) -> Proposal:
    """The proposal after another look at the log, with what the owner says."""
    inspection = inspect(proposal.inspection.source, **changes)
    return replace(
        proposal,
        inspection=inspection,
        reading=inspection.settings,
        trial=try_reading(inspection, inspection.settings, say=say),
    )


def _read_again(proposal: Proposal, say: Callable[[str], None], **changed: Any) -> Proposal:
    """The proposal with other options of the reader; None takes one out."""
    merged = {**proposal.reading, **changed}
    reading = {name: value for name, value in merged.items() if value is not None}
    return replace(
        proposal, reading=reading, trial=try_reading(proposal.inspection, reading, say=say)
    )


def _change(proposal: Proposal, dialog: Dialog, say: Callable[[str], None]) -> Proposal:
    """The proposal with each of the reader's options as the owner answers."""
    inspection = proposal.inspection
    changes = {}
    if inspection.encoding:
        changes["encoding"] = dialog.value("Encoding", inspection.encoding.name, check_encoding)
    if inspection.delimiter:
        changes["delimiter"] = dialog.value("Delimiter", inspection.delimiter.name, check_delimiter)
    before = (
        inspection.encoding and inspection.encoding.name,
        inspection.delimiter and inspection.delimiter.character,
    )
    if changes and (changes.get("encoding"), changes.get("delimiter")) != before:
        proposal = _inspect_again(proposal, say, **changes)
    roles = {}
    for role in ROLES:
        roles[role] = _ask_column(proposal, role, dialog)
    changed: dict[str, Any] = {"columns": roles}
    if roles["url"] != proposal.inspection.roles.get("url"):  # of another column nothing is known
        changed["url"] = None
    if roles["time"] != NONE:
        current = proposal.reading.get("time_format") or "ISO"

        def read(text: str) -> str | None:
            return None if text.lower() == "iso" else check_time_format(text)

        changed["time_format"] = dialog.value("Format of times (ISO or strptime)", current, read)
    return _read_again(proposal, say, **changed)


def _ask_column(proposal: Proposal, role: str, dialog: Dialog) -> str:
    names = [column.name for column in proposal.columns]
    required = role in ("user", "query")

    def read(text: str) -> str:
        if text in names or (text == NONE and not required):
            return text
        raise UsageError(f"columns are {', '.join(names)}" + ("" if required else "; or none"))

    default = proposal.reading.get("columns", proposal.inspection.roles).get(role, NONE)
    return str(dialog.value(f"Column of the {role}", default, read))


def _ask_answers(answers: Answers, source_name: str, dialog: Dialog) -> Answers:
    """What the rows do not say, as the owner answers."""
    for name, question in {
        "title": "Title",
        "publisher": "Publisher",
        "license": "Licence (such as CC-BY-4.0)",
    }.items():
        answers = _ask(answers, dialog, name, question, getattr(answers, name) or "-", _text)
    dialog.tell("A number of users only if it is public already: never count your log for it.")
    users = "-" if answers.users is None else str(answers.users)
    answers = _ask(
        answers, dialog, "users", "Publicly known number of users, at most", users, _number
    )
    answers = _ask(
        answers, dialog, "epsilon", "Epsilon of each release", f"{answers.epsilon:g}", read_number
    )
    answers = _ask(answers, dialog, "ledger", "Ledger file", str(answers.ledger or "-"), _path)
    if answers.ledger is None:
        return answers
    answers = _ask_source(answers, propose_source(answers, source_name), dialog)
    if (account := account_of(answers)) and account.epsilon_cap is not None:
        dialog.tell(f"The ledger has a cap for {answers.source_name}, which stays as it is.")
        return answers
    caps = f"{answers.cap_epsilon:g}"
    answers = _ask(
        answers, dialog, "cap_epsilon", "Cap: epsilon of all releases", caps, read_number
    )
    return _ask(
        answers,
        dialog,
        "cap_delta",
        "Cap: delta of all releases",
        f"{answers.whole_delta:g}",
        read_number,
    )


def _ask_source(answers: Answers, proposal: str, dialog: Dialog) -> Answers:
    """The answers with the source: one that the ledger has, or a new one whose name the owner types."""
    names = sources_in(answers)
    if names:
        dialog.tell(
            f"{answers.ledger} has a budget for each of these sources. Another name opens one more: only for users "
            "that are in none of them."
        )
    for number, name in enumerate(names, 1):
        dialog.tell(f"  {number}  {name}")

    def read(text: str) -> Answers:
        if text not in names and text.isdecimal() and 1 <= int(text) <= len(names):
            text = names[int(text) - 1]
        if not text:
            raise UsageError(f"answer with a number from 1 to {len(names)}, or with a name")
        chosen = replace(answers, source_name=text)
        account = account_of(chosen)
        if account is not None:
            return replace(chosen, source_name=account.name, new_source=False)
        return replace(chosen, new_source=bool(names))

    question = "Name of the source (the population of users)"
    with_source: Answers = dialog.value(question, proposal, read)
    return with_source


def _ask(
    answers: Answers,
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
            changed["cap_epsilon"] = max(answers.cap_epsilon, LEAST_CAP * changed[name])
        extended = replace(answers, **changed)
        account_of(extended)
        return extended

    extended: Answers = dialog.value(question, default, fit)
    return extended


def _text(text: str) -> str | None:
    return None if text == "-" else text


def _number(text: str) -> int | None:
    return None if text == "-" else integer(text)


def _path(text: str) -> Path | None:
    return None if text == "-" else Path(text)

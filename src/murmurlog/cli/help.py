"""The commands that help with the others: help, completion."""

import click
from click.shell_completion import CompletionItem, get_completion_class

from murmurlog.bundle.options import mechanism_table
from murmurlog.cli.app import app
from murmurlog.cli.options import command, with_default
from murmurlog.cli.output import align, show
from murmurlog.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


def _complete_shell(_context: object, _argument: object, start: str) -> list[CompletionItem]:
    return [CompletionItem(shell) for shell in SHELLS if shell.startswith(start)]


@command(
    examples=["murmurlog completion bash > ~/.local/share/bash-completion/completions/murmurlog"]
)
@click.argument("shell", help="bash, zsh or fish.", metavar="SHELL", shell_complete=_complete_shell)
def completion(shell: str) -> None:
    """Print a script that completes commands, flags and values in a shell."""
    complete = get_completion_class(shell) if shell in SHELLS else None
    if complete is None:
        raise UsageError(f"there is no completion for {shell!r}: use {', '.join(SHELLS)}")
    show(complete(app, {}, "murmurlog", "_MURMURLOG_COMPLETE").source())


def _complete_topic(_context: object, _argument: object, start: str) -> list[CompletionItem]:
    topics = [*app.commands, *(mechanism["name"] for mechanism in mechanism_table()["mechanisms"])]
    return [CompletionItem(topic) for topic in topics if topic.startswith(start)]


@command("help", examples=["murmurlog help release", "murmurlog help rounds"])
@click.argument(
    "topic", required=False, help="A command or a mechanism.", shell_complete=_complete_topic
)
@click.pass_context
def explain(context: click.Context, topic: str | None) -> None:
    """Explain a command, or a mechanism and its flags."""
    table = mechanism_table()
    mechanisms = {mechanism["name"]: mechanism for mechanism in table["mechanisms"]}
    if topic in mechanisms:
        show("\n".join(_lines(mechanisms[topic], table["options"])))
        return
    if topic is not None and topic not in app.commands:
        raise UsageError(
            f"there is no command and no mechanism {topic!r}; mechanisms are {', '.join(mechanisms)}"
        )
    root = context.find_root()
    if topic is None:
        show(app.get_help(root))
    else:
        show(app.commands[topic].get_help(click.Context(app.commands[topic], root, topic)))


def _lines(mechanism: dict[str, str], options: list[dict[str, str]]) -> list[str]:
    """What a mechanism is and makes, and its flags."""
    facts = [(name.replace("_", " "), mechanism[name]) for name in ("tables", "engines")]
    facts += [("items a unit", f"{mechanism['bound']} unless --per-user is given")]
    facts += [("asked for by", mechanism["asked_for_by"])]
    lines = [f"{mechanism['name']}: {mechanism['about']}", "", align(facts)]
    own_options = [option for option in options if mechanism["name"] in option["mechanisms"]]
    if own_options:
        flags = [
            (f"  {option['flag']} {option['metavar']}", with_default(option["help"]))
            for option in own_options
        ]
        lines += ["", "Flags of release and plan:", align(flags)]
    page = f"docs/explanation/mechanisms/{mechanism['page']}"
    return [*lines, "", f"Guarantee and proof: {page}"]

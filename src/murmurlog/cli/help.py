"""The commands that help with the others: help, completion."""

from typing import Annotated

import typer

from murmurlog.bundle.options import mechanism_table
from murmurlog.cli import completion
from murmurlog.cli.app import app
from murmurlog.cli.help_text import with_default
from murmurlog.cli.output import aligned, show
from murmurlog.errors import UsageError

app.command("completion")(completion.completion)


@app.command("help")
def explain(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="A command or a mechanism.",
            show_default=False,
            autocompletion=lambda incomplete: [
                each for each in completion.topics() if each.startswith(incomplete)
            ],
        ),
    ] = None,
) -> None:
    """Explain a command, or a mechanism and its flags."""
    table = mechanism_table()
    mechanisms = {each["name"]: each for each in table["mechanisms"]}
    if topic in mechanisms:
        show("\n".join(_lines(mechanisms[topic], table["options"])))
        return
    group = typer.main.get_command(app)
    if topic is not None and topic not in getattr(group, "commands", {}):
        raise UsageError(
            f"there is no command and no mechanism {topic!r}; mechanisms are {', '.join(mechanisms)}"
        )
    group.main(["--help"] if topic is None else [topic, "--help"], prog_name="murmurlog")


def _lines(mechanism: dict[str, str], options: list[dict[str, str]]) -> list[str]:
    """What a mechanism is and makes, and its flags."""
    facts = [(name.replace("_", " "), mechanism[name]) for name in ("tables", "engines")]
    facts += [("items a unit", f"{mechanism['bound']} unless --per-user is given")]
    facts += [("asked for by", mechanism["asked_for_by"])]
    lines = [f"{mechanism['name']}: {mechanism['about']}", "", aligned(facts)]
    own = [each for each in options if mechanism["name"] in each["mechanisms"]]
    if own:
        flags = [
            (f"  {each['flag']} {each['metavar']}", with_default(each["help"])) for each in own
        ]
        lines += ["", "Flags of release and plan:", aligned(flags)]
    page = f"docs/explanation/mechanisms/{mechanism['page']}"
    return [*lines, "", f"Guarantee and proof: {page}"]

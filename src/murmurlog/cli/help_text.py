"""How `--help` looks: flags in groups by task, defaults in one form, examples, commands in order."""

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

WIDTH = 100
# Commands in the order in which an owner needs them; those that are not listed come last.
COMMANDS = (
    *("init", "profile", "plan", "release", "verify", "serve"),
    *("estimate", "compare", "export", "series", "ledger"),
    *("evaluate", "sweep", "audit", "demo", "generate"),
    *("completion", "help"),
)
SECTIONS = (
    *("Arguments", "Options", "What to publish", "Budget", "Your log", "Mechanisms"),
    "Where it runs",
)
OUTPUT = ("--out", "--dry-run", "--json", "--picture", "--help")  # of a command with groups
# Groups of options by the task that they are for; other groups are named by their docstrings.
TITLES = {
    "Content": "What to publish",
    "Choice": "What to publish",
    "Budget": "Budget",
    "Privacy": "Budget",
    "Planned": "Budget",
    "Booking": "Budget",
    "SeriesOptions": "Series",
    "ReadOptions": "Your log",
    "SourceOptions": "Your log",
    "Running": "Where it runs",
    "Statements": "Output",
}
FIRST = ("--tables", "--out")  # in their groups
METAVARS = {"path": "FILE", "int": "N", "float": "X"}
EXAMPLES = {
    "init": ("murmurlog init log.csv", "murmurlog init log.csv --yes"),
    "profile": ("murmurlog profile log.parquet",),
    "plan": (
        "murmurlog plan --epsilon 1 --delta 1e-6 --per-user 20",
        "murmurlog plan --like aol --users 10000 --target volume=0.1 --out plan.toml",
    ),
    "release": (
        "murmurlog release log.parquet --epsilon 1 --out first",
        "murmurlog release log.parquet --tables query --ledger budget.db --source web --out bundle",
    ),
    "verify": ("murmurlog verify bundle --ledger budget.db",),
    "serve": ("murmurlog serve bundle", "murmurlog serve first bundle --port 0 --no-browser"),
    "estimate": ("murmurlog estimate bundle --match 'w*'",),
    "compare": (
        "murmurlog compare first bundle",
        "murmurlog compare first bundle --table query --csv > changes.csv",
    ),
    "export": (
        "murmurlog export bundle --to tsv --out tables",
        "murmurlog export first bundle --to parquet --out series",
    ),
    "ledger show": ("murmurlog ledger show --ledger budget.db",),
    "ledger export": ("murmurlog ledger export --ledger budget.db > bookings.csv",),
    "ledger cap": ("murmurlog ledger cap web --epsilon 4 --delta 1e-5 --ledger budget.db",),
    "ledger require-cap": ("murmurlog ledger require-cap --ledger budget.db",),
    "ledger statement": ("murmurlog ledger statement web --ledger budget.db --out web.html",),
    "series init": (
        "murmurlog series init series.toml --logs 'logs/{period}.parquet' --first 2026-01 --source monthly "
        "--epsilon 3 --delta 1e-5 --reason 'monthly tables'",
    ),
    "series run": (
        "murmurlog series run series.toml",
        "murmurlog series run series.toml --once",
    ),
    "series status": ("murmurlog series status series.toml",),
    "evaluate": (
        "murmurlog evaluate log.parquet --bundle bundle --out report.html",
        "murmurlog evaluate log.parquet --mechanisms rounds --tasks statistics --out rounds.html",
    ),
    "sweep": ("murmurlog sweep log.parquet --mechanisms rounds --vary epsilon=1,4 --out sweep",),
    "audit": ("murmurlog audit --mechanism threshold --epsilon 1 --trials 300",),
    "demo": ("murmurlog demo --out demo",),
    "generate": ("murmurlog generate --rows 60000 --out log.parquet",),
    "completion": (
        "murmurlog completion bash > ~/.local/share/bash-completion/completions/murmurlog",
    ),
    "help": ("murmurlog help release", "murmurlog help rounds"),
}
_DEFAULT = re.compile(r"[.;]?\s+[Dd]efault:? ([^\[\]]+?)\.?(?=$|  \[)")


def with_default(text: str) -> str:
    """The help of a flag with its default in the one form, [default: X]."""
    return _DEFAULT.sub(lambda found: f".  [default: {found[1]}]", text)


def _plain(parameter: Any, record: tuple[str, str]) -> tuple[str, str]:
    """The flag with the word for its value that all flags share, and its help."""
    if parameter.param_type_name == "argument":
        return (parameter.metavar or parameter.name).upper(), with_default(record[1])
    left = re.sub(r"<(?:list\[)?(\w+)\]?>", lambda kind: METAVARS.get(kind[1], "TEXT"), record[0])
    return left, with_default(record[1])


class GroupedCommand(TyperCommand):
    """A command whose help lists its flags by group and ends with examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, then each group of flags under its heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        parameters = [p for p in self.get_params(ctx) if not getattr(p, "of_mechanism", False)]
        grouped = any(getattr(p, "rich_help_panel", None) for p in parameters)
        for parameter in parameters:
            record = parameter.get_help_record(ctx)
            if record is not None:
                own = "Output" if grouped and parameter.opts[0] in OUTPUT else "Options"
                if parameter.param_type_name == "argument":
                    own = "Arguments"
                panel = getattr(parameter, "rich_help_panel", None) or own
                sections.setdefault(panel, []).append(_plain(parameter, record))
        if more := list(self.more_records()):
            sections["Mechanisms"] = more
        known = [name for name in SECTIONS if name in sections]
        others = [name for name in sections if name not in (*known, "Output")]
        for title in (*known, *others, *(["Output"] if "Output" in sections else [])):
            records = sorted(sections[title], key=lambda r: not r[0].startswith(FIRST))
            with formatter.section(title):
                formatter.write_dl(records, col_max=27)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the name of the command in its usage line."""
        return [re.sub("[{}]", "", piece).upper() for piece in super().collect_usage_pieces(ctx)]

    def more_records(self) -> Iterator[tuple[str, str]]:
        """Lines about mechanisms, if the command takes their options."""
        return iter(())

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples as they are typed."""
        if found := EXAMPLES.get(ctx.command_path.partition(" ")[2]):
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in found))


class Group(TyperGroup):
    """Commands in their order, none of their summaries cut."""

    def list_commands(self, ctx: Any) -> list[str]:
        if ctx.parent is not None:
            return list(self.commands)
        places = {name: place for place, name in enumerate(COMMANDS)}
        return sorted(self.commands, key=lambda name: places.get(name, len(places)))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the flags of the group, then its commands."""
        records = [p.get_help_record(ctx) for p in self.get_params(ctx)]
        with formatter.section("Options"):
            formatter.write_dl([(r[0], with_default(r[1])) for r in records if r is not None])
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, (self.commands[name].help or "").strip().partition("\n")[0])
                    for name in self.list_commands(ctx)
                ]
            )

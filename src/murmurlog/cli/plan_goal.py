"""What `plan` does with a wish: where it looks, what it says, and the files it writes."""

import csv
import io
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmurlog.cli.output import show, show_json, tell, warn_about
from murmurlog.errors import UsageError

if TYPE_CHECKING:
    from murmurlog.publishing.planning.goals import Choice, Terms, Wish
    from murmurlog.publishing.planning.stand_in_log import Likeness

SWEEP = ("sweep.csv", "sweep.html")
SETTINGS = "murmurlog.toml"
WIDE = 50  # items a unit: a narrower profile says little about what rounds see
COLUMNS = ("mechanism", "epsilon", "delta", "queries", "volume", "median_error")
# Flags of the release that stand for themselves: nothing in them is chosen on a log.
GIVEN = ("tables", "delta", "unit", "neighbours", "set-only")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Where to look: at most one of the first four."""

    profile: Path | None
    public: str | None
    like: str | None
    raw: str | None
    users: int | None
    kind: str | None
    unit: str
    columns: Mapping[str, str] | None
    encoding: str | None
    shape: str | None
    memory: str | None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was looked at, and what that means for the guarantee."""

    likeness: "Likeness"
    words: str
    kind: str
    unit: str
    exact: bool  # the owner's log itself
    reach: int | None = None  # items of a unit whose popularity was measured
    private: str | None = None  # what is said of a private profile, whose cost comes on top


def wish_of(text: str | None) -> "Wish | None":
    """volume=0.4 or queries=10000."""
    from murmurlog.cli.flags import number, one_pair
    from murmurlog.publishing.planning.goals import Wish

    if text is None:
        return None
    name, amount = one_pair(text, "--target")
    return Wish(name=name, amount=number(amount))


def look(asked: Asked, say: Callable[[str], None]) -> Seen:
    """The likeness that everything is foretold from."""
    flags = {"--profile": asked.profile, "--public": asked.public, "--like": asked.like}
    flags["--raw"] = asked.raw
    given = [name for name, value in flags.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are two logs to foretell from: give one")
    if not given and asked.users is None:
        raise UsageError(
            "what survives is foretold from a log that is not secret: give --profile FILE (measured by "
            "murmurlog profile --epsilon), --public FILE, or --users N for a generated log (--like "
            "aol, zealous or plain). --raw FILE looks at your own log, and that is not protected."
        )
    if asked.profile:
        return _from_profile(asked.profile, asked, say)
    from murmurlog.publishing.planning.stand_in_log import of_file, of_shape

    kind = asked.kind or "query"
    if asked.public or asked.raw:
        source = str(asked.public or asked.raw)
        say(f"reading {Path(source).name}")
        likeness = of_file(
            source,
            kind=kind,
            unit=asked.unit,
            columns=asked.columns,
            encoding=asked.encoding,
            shape=asked.shape,
            memory=asked.memory,
        )
        if asked.public and asked.users:
            likeness = likeness.part(asked.users)
        what = "the public log" if asked.public else "the log itself, which is not protected:"
        words = f"{what} {Path(source).name}, {likeness.units} {asked.unit}s"
        return Seen(
            likeness=likeness, words=words, kind=kind, unit=asked.unit, exact=bool(asked.raw)
        )
    like = asked.like or "plain"
    if asked.users is None:
        raise UsageError(f"--like {like} needs --users: how many users the log has, about")
    say(f"inventing a log of {asked.users} users")
    likeness = of_shape(like, users=asked.users, kind=kind, unit=asked.unit)
    words = f"a generated log, {like}, {asked.users} users"
    return Seen(likeness=likeness, words=words, kind=kind, unit=asked.unit, exact=False)


def _from_profile(path: Path, asked: Asked, say: Callable[[str], None]) -> Seen:
    from murmurlog.publishing.planning.outline import read_outline
    from murmurlog.publishing.planning.stand_in_log import of_outline

    outline = read_outline(path)
    if asked.kind not in (None, outline.kind):
        raise UsageError(f"{path.name} is of kind {outline.kind}, not {asked.kind}")
    if asked.unit not in ("user", outline.unit):
        raise UsageError(f"{path.name} is of unit {outline.unit}, not {asked.unit}")
    if asked.users is not None:
        raise UsageError("--users goes with --like and --public: a profile has its own number")
    if outline.per_user < WIDE:
        tell(
            f"this profile counts {outline.per_user} items a {outline.unit}; one with --per-user 50 "
            "foretells rounds better"
        )
    say("inventing a log with the measured outline")
    words = f"the profile {path.name}"
    private = None
    if outline.private:
        private = f"a private profile ({outline.guarantee})"
        words += f", {outline.guarantee}; its cost adds to that of the release"
    else:
        words += ", which is exact: it is not protected"
    return Seen(
        likeness=of_outline(outline),
        words=words,
        kind=outline.kind,
        unit=outline.unit,
        exact=not outline.private,
        reach=outline.per_user,
        private=private,
    )


def check_out(out: Path | None, *, sweep: bool) -> None:
    """Raises unless what is to be written can be written there."""
    if sweep and out is None:
        raise UsageError("--sweep writes a chart and a table: give --out, a folder for them")
    if out is None:
        return
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out.name} exists: choose another --out, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(f"--out {str(out)!r}: there is no folder {str(out.parent)!r}")
    if not sweep and out.suffix != ".toml":
        raise UsageError(f"--out {out.name} must end in .toml: it holds settings of a release")
    from murmurlog.evaluation.report import outside_bundles

    outside_bundles(out)


def report(
    choice: "Choice",
    terms: "Terms",
    seen: Seen,
    wish: "Wish | None",
    sentence: str,
    *,
    given_epsilon: bool,
) -> dict[str, Any]:
    """All that is known of the choice, as JSON."""
    from murmurlog.publishing.planning.goals import release_flags

    flags = release_flags(choice, terms, kind=seen.kind)
    chosen = {name: value for name, value in flags.items() if name not in GIVEN}
    fixed = {name.replace("_", "-") for name in terms.options}
    fixed |= {"mechanism"} if terms.mechanism else set()
    fixed |= {"per-user"} if terms.per_user else set()
    fixed |= {"epsilon"} if given_epsilon else set()
    unprotected = [
        f"{name} {value}, chosen by plan on the log itself"
        for name, value in chosen.items()
        if seen.exact and name not in fixed
    ]
    if seen.private:
        flags["planned-by"] = seen.private
    if unprotected:
        flags["unprotected"] = unprotected
    return choice.plan.as_json() | {
        "explained": sentence,
        "target": None if wish is None else str(wish),
        "met": None if wish is None else wish.met(choice.forecast),
        "foretold": choice.forecast.as_json(),
        "from": seen.words,
        "unprotected": unprotected,
        "release": command(flags),
        "settings": flags,
    }


def command(flags: Mapping[str, Any]) -> str:
    """The command line of the release."""
    words = ["murmurlog", "release", "SOURCE"]
    for name, value in flags.items():
        if value is True:
            words.append(f"--{name}")
        elif name == "unprotected":
            words += [word for text in value for word in ("--unprotected", text)]
        else:
            words += [f"--{name}", ",".join(value) if isinstance(value, list) else str(value)]
    return shlex.join(words)


def tell_of(found: Mapping[str, Any], choice: "Choice", *, as_json: bool) -> None:
    """Prints the choice, and what is foretold."""
    warn_about(choice.plan.guarantee)
    if as_json:
        show_json({name: value for name, value in found.items() if name != "settings"})
        return
    f = choice.forecast
    (few, little), (many, much) = f.low, f.high
    counts = (
        ""
        if f.median_error is None
        else f"; the counts of the 100 most popular are off by {f.median_error:.1%} in the median"
    )
    show(str(choice.plan.mechanism))
    show(str(choice.plan.guarantee))
    show(found["explained"])
    show(
        f"foretold: {f.queries:.0f} published ({few:.0f} to {many:.0f}), {f.volume:.1%} of the "
        f"volume ({little:.1%} to {much:.1%}){counts}"
    )
    show(f"from: {found['from']}")
    for text in found["unprotected"]:
        show(f"unprotected: {text}")
    show(f"next: {found['release']}")


def missed(choice: "Choice", wish: "Wish", most: float) -> str:
    """Why nothing better was found."""
    best = wish.of(choice.forecast)
    amount = f"{best:.1%}" if wish.name == "volume" else f"{best:.0f}"
    where = f"epsilon {choice.epsilon:g}"
    where += ", the most that is tried" if choice.epsilon >= most else ""
    even = f"{choice.plan.mechanism}"
    return (
        f"missed: {wish} is not reached at {where}; the best is {amount}, by {even}. What few "
        "users hold cannot be published at this budget, whatever the split: wish for less"
        + (", or allow a larger epsilon." if choice.epsilon < most else ".")
    )


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """A [release] section that `murmurlog release` picks up."""
    lines = ["# Made by murmurlog plan.", "[release]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    tell(f"wrote {path}")


def write_sweep(folder: Path, rows: list[dict[str, Any]], seen: Seen) -> None:
    """The trade-off as a table and as charts."""
    from murmurlog.charts import charts

    # With --raw they hold exact figures of the log, as reports of evaluations do.
    folder.mkdir(mode=0o700)
    for name in SWEEP:
        (folder / name).touch(mode=0o600)
    table = io.StringIO()
    writer = csv.DictWriter(table, (*COLUMNS, "from"), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "from": seen.words} for row in rows)
    (folder / SWEEP[0]).write_text(table.getvalue(), encoding="utf-8")
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["mechanism"], []).append(row)
    drawn = [
        charts.lines(
            {n: [(row["epsilon"], row[column]) for row in line] for n, line in by_name.items()},
            title=title,
            x_label="epsilon",
            percent=percent,
        )
        for column, title, percent in (
            ("volume", "Share of the volume that is published", True),
            ("queries", "Items that are published", False),
        )
    ]
    cells = [
        [
            row["mechanism"],
            f"{row['epsilon']:g}",
            f"{row['queries']:,}",
            f"{row['volume']:.1%}",
            "" if row["median_error"] is None else f"{row['median_error']:.1%}",
        ]
        for row in rows
    ]
    words = [
        f"Foretold from {seen.words}. Kind of item: {seen.kind}. delta is {rows[0]['delta']:g} per "
        f"{seen.unit}.",
        f"Volume: of all pairs of a {seen.unit} and a {seen.kind} of theirs, the share whose "
        f"{seen.kind} is published. Each mechanism has the best of a few bounds. The error is that of "
        "the counts of the 100 most popular, in the median; a missing one counts as 100 %.",
    ]
    head = ["mechanism", "epsilon", "items", "volume", "error"]
    page = charts.page(
        title="What survives at which epsilon",
        words=words,
        charts=drawn,
        table=charts.rows_of(head, cells),
    )
    (folder / SWEEP[1]).write_text(page, encoding="utf-8")
    tell(f"wrote {folder / SWEEP[0]} and {folder / SWEEP[1]}")
    if seen.exact:
        tell(
            "they are exact figures of the log itself: for your eyes only, like all that is tuned by"
        )

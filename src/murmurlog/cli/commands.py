"""The commands that make and check a release. Imports are late: --help answers at once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import (
    Columns,
    Count,
    CountPerUser,
    CountShare,
    Delta,
    Diversity,
    Encoding,
    Epsilon,
    Fakes,
    Json,
    LedgerFile,
    Letters,
    Map,
    Measure,
    Mechanism,
    Memory,
    Neighbours,
    Noise,
    Notion,
    Objective,
    OutputSize,
    PoolFile,
    QueriesPerSession,
    ResultLists,
    RoundsFlag,
    SessionsPerUser,
    Shape,
    Source,
    Split,
    Strict,
    Subsequences,
    Support,
    Unit,
    Url,
    Users,
    ViaKeywords,
    by_values,
    flag,
    mechanism_of,
    one_pair,
    pairs,
    per_user_bounds,
    seconds,
    shares_of,
)
from murmurlog.cli.output import aligned, progress, show, show_json, tell, warn_about


@app.command()
def release(
    source: Source,
    out: Annotated[str, flag("--out", help="The bundle's folder; must not exist.")] = "bundle",
    tables: Annotated[
        str | None,
        flag("--tables", help="Of keyword, query, pair, click, session, itemset, log."),
    ] = None,
    mechanism: Mechanism = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    shares: Annotated[
        str | None, flag("--shares", help="Of the budget: query=0.7,click=0.3. Default equal.")
    ] = None,
    per_user: Annotated[
        str | None,
        flag(
            "--per-user",
            help="Distinct items a unit: 20, or query=20,click=10. Default 100 for rounds, else 10.",
        ),
    ] = None,
    bound: Annotated[
        str | None,
        flag("--bound", help="first (by time) or random. Default first if there are times."),
    ] = None,
    unit: Unit = "user",
    neighbours: Neighbours = "add-remove",
    noise: Noise = None,
    count: Count = "users",
    split: Split = None,
    result_lists: ResultLists = None,
    notion: Notion = None,
    via_keywords: ViaKeywords = False,
    pool: PoolFile = None,
    fakes: Fakes = None,
    gap: Annotated[str, flag("--gap", help="A pause that ends a session: 90s, 30m, 1h.")] = "30m",
    sessions_per_user: SessionsPerUser = None,
    queries_per_session: QueriesPerSession = None,
    subsequences: Subsequences = None,
    map: Map = None,
    set_size: Annotated[int, flag("--set-size", help="itemset: the largest set of queries.")] = 2,
    consecutive: Annotated[
        bool, flag("--consecutive", help="itemset: only queries that follow one another.")
    ] = False,
    rounds: RoundsFlag = None,
    count_share: CountShare = None,
    count_per_user: CountPerUser = None,
    objective: Objective = None,
    support: Support = None,
    output_size: OutputSize = None,
    diversity: Diversity = None,
    measure: Measure = None,
    set_only: Annotated[bool, flag("--set-only", help="Publish keys without counts.")] = False,
    consistent: Annotated[
        bool, flag("--consistent", help="Counts that go together; the drawn ones stay beside them.")
    ] = False,
    letters: Letters = None,
    columns: Columns = None,
    encoding: Encoding = None,
    shape: Shape = None,
    since: Annotated[
        str | None, flag("--since", help="Rows from this day or time on (UTC).")
    ] = None,
    until: Annotated[
        str | None, flag("--until", help="Rows before this day or time (UTC).")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Rows with this value only: column=value; once for each."),
    ] = None,
    by: Annotated[
        str | None, flag("--by", help="A column with public values in the key: country=DE,FR,IT.")
    ] = None,
    url: Url = "path",
    screen: Annotated[
        bool, typer.Option("--screen/--no-screen", help="Drop rows that look like personal data.")
    ] = True,
    patterns: Annotated[
        Path | None, flag("--patterns", help="Patterns of the screen, a TOML file.")
    ] = None,
    deny: Annotated[
        Path | None, flag("--deny", help="Queries never to publish, one a line.")
    ] = None,
    strict: Strict = False,
    users: Users = None,
    accept_delta: Annotated[
        bool, flag("--accept-delta", help="Accept a delta of at least 1/users.")
    ] = False,
    accept_no_guarantee: Annotated[
        bool,
        flag("--accept-no-guarantee", help="Run a mechanism about which nothing is proved."),
    ] = False,
    ledger: LedgerFile = None,
    source_name: Annotated[
        str | None, flag("--source", help="The population of users, as the ledger calls it.")
    ] = None,
    engine: Annotated[str, flag("--engine", help="Where it runs: duckdb or spark.")] = "duckdb",
    memory: Memory = None,
    master: Annotated[
        str | None, flag("--master", help="spark: spark://host:7077, or local[*].")
    ] = None,
    scratch: Annotated[
        str | None, flag("--scratch", help="spark: a folder that all workers reach.")
    ] = None,
    about: Annotated[
        list[str] | None,
        typer.Option(
            "--about", help="For the cards, once for each: title=.., publisher=.., license=.."
        ),
    ] = None,
    unprotected: Annotated[
        list[str] | None,
        typer.Option(
            "--unprotected", help="What was chosen by looking at the log; once for each thing."
        ),
    ] = None,
    planned_by: Annotated[
        str | None,
        flag("--planned-by", help="The private profile by which parameters were chosen."),
    ] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", help="Say what would be done; read no row.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Publish the tables of a log as a bundle, under one guarantee."""
    from murmurlog.publishing.release import release as run

    with progress() as say:
        outcome = run(
            source,
            out=out,
            tables=None if tables is None else [t.strip() for t in tables.split(",")],
            mechanism=mechanism_of(mechanism),
            epsilon=epsilon,
            delta=delta,
            shares=shares_of(shares, "--shares"),
            per_user=None if per_user is None else per_user_bounds(per_user),
            bound=bound,
            unit=unit,
            neighbours=neighbours,
            noise=noise,
            count=count,
            split=shares_of(split, "--split"),
            result_lists=result_lists,
            notion=notion,
            via_keywords=via_keywords,
            pool=pool,
            fakes=fakes,
            gap=seconds(gap),
            sessions_per_user=sessions_per_user,
            queries_per_session=queries_per_session,
            subsequences=subsequences,
            map=map,
            set_size=set_size,
            consecutive=consecutive,
            rounds=rounds,
            count_share=count_share,
            count_per_user=count_per_user,
            objective=objective,
            support=support,
            output_size=output_size,
            diversity=diversity,
            measure=measure,
            set_only=set_only,
            consistent=consistent,
            letters=pairs(letters, "--set"),
            columns=pairs(columns, "--columns"),
            encoding=encoding,
            shape=shape,
            since=since,
            until=until,
            where=dict(one_pair(text, "--where") for text in where or ()) or None,
            by=by_values(by),
            url=url,
            screen=screen,
            patterns=patterns,
            deny=deny,
            strict=strict,
            users=users,
            accept_delta=accept_delta,
            accept_no_guarantee=accept_no_guarantee,
            ledger=ledger,
            source_name=source_name,
            engine=engine,
            memory=memory,
            master=master,
            scratch=scratch,
            about=dict(one_pair(text, "--about") for text in about or ()),
            unprotected=unprotected or (),
            planned_by=planned_by,
            dry_run=dry_run,
            say=say,
        )
    _report_release(outcome, users)
    if as_json:
        show_json(outcome.as_json())


def _report_release(outcome: Any, users: int | None) -> None:
    g = outcome.guarantee
    if outcome.broken:
        listed = ", ".join(f"{n} x {reason}" for reason, n in outcome.broken.items())
        tell(f"rows not used as they are (for your eyes only): {listed}")
    listing = [["table", "rows", "mechanism", "epsilon", "delta"]]
    for name, plan in outcome.plans.items():
        rows = str(outcome.rows.get(name, "-"))
        stated = plan.guarantee.as_json()
        budget = [
            "none" if stated[part] is None else f"{stated[part]:{digits}}"
            for part, digits in (("epsilon", ".6g"), ("delta", ".3g"))
        ]
        listing.append([name, rows, _short(str(plan.mechanism)), *budget])
    tell(aligned(listing))
    tell(f"together: {g}")
    warn_about(g)
    for name, notes in outcome.notes.items():
        for note, value in notes.items():
            tell(f"{name}: {note}: {value}")
    for name, rows in outcome.rows.items():
        needed = outcome.plans[name].passes().get("0.5")
        if rows == 0 and needed is None:
            tell(f"{name}: nothing was published; a larger epsilon asks less of an item")
        elif rows == 0:
            tell(
                f"{name}: nothing was published; an item needs about {needed} {g.unit}s for even "
                "odds. A larger epsilon or a smaller --per-user lowers that."
            )
    if not outcome.rows:
        tell("dry run: no row was read, nothing was booked or written")
        return
    if g.notion == "none":
        tell(f"wrote {outcome.out}, which claims nothing: murmurlog verify will say so")
        return
    if users is None:
        tell("delta was not held against a number of users; declare one with --users.")
    tell("booked" if outcome.booked else "not booked: give --ledger and --source to keep count")
    here = outcome.out if isinstance(outcome.out, Path) else "a copy of it"
    tell(f"wrote {outcome.out}; check it: murmurlog verify {here}")


def _short(mechanism: str) -> str:
    """The mechanism's text, or its first letters; privacy.json has them all."""
    return mechanism if len(mechanism) <= 60 else mechanism[:48].rsplit(",", 1)[0] + ", ...)"


@app.command()
def verify(
    bundle: Annotated[Path, typer.Argument(help="The bundle's folder.", show_default=False)],
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Check a bundle: files, guarantee recomputed, tables, cards, ledger entry."""
    from murmurlog.auditing.verify import verify as run

    report = run(bundle, ledger=ledger)
    if as_json:
        show_json(report.as_json())
    else:
        for check in report.checks:
            show(f"{'ok    ' if check.ok else 'FAILED'} {check.name}: {check.message}")
    raise typer.Exit(report.exit_code)


@app.command()
def generate(
    rows: Annotated[int, typer.Option("--rows", help="How many rows.")],
    out: Annotated[Path, typer.Option("--out", help=".parquet, .csv, .tsv, .jsonl (+ .gz, .zst).")],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same log.")] = 1,
    like: Annotated[
        str | None, typer.Option("--like", help="Users of a known shape: aol or zealous.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="Also what was planted: .parquet or .csv.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Invent a search log: nobody's, and shaped like a real one."""
    from murmurlog.logs.invented import generate as synth

    synth.check_target(out)
    if labels:
        synth.check_labels(labels, like=like, out=out)
    with progress() as say:
        say(f"inventing {rows} rows")
        log = synth.invent(rows=rows, seed=seed, like=like)
        say(f"writing {out.name}")
        synth.write(log, out)
        if labels:
            synth.write_labels(log, labels)
    tell(f"wrote {out}: {log.rows} rows of {log.users} invented users, seed {seed}")
    if as_json:
        made: dict[str, Any] = {"rows": log.rows, "users": log.users, "seed": seed, "out": str(out)}
        if like:
            made["like"] = like
        if labels:
            made["labels"] = str(labels)
        show_json(made)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="A folder; must not exist.")] = Path("demo"),
    rows: Annotated[int, typer.Option("--rows", help="Rows of the invented log.")] = 400_000,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Known noise: the bundle is then NOT private.")
    ] = None,
    as_json: Json = False,
) -> None:
    """The whole road on an invented log: generate, release, book, verify."""
    from murmurlog.cli import demo_log as demonstration

    with progress() as say:
        result = demonstration.demo(out=out, rows=rows, seed=seed, say=say)
    if as_json:
        show_json(result.as_json())
    else:
        for line in result.lines():
            show(line)
    raise typer.Exit(result.exit_code)

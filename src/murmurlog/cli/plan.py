"""The command that foresees a release. Imports are late: --help answers at once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import (
    Columns,
    CountPerUser,
    CountShare,
    Delta,
    Encoding,
    Epsilon,
    Fakes,
    Json,
    Letters,
    Map,
    Mechanism,
    Memory,
    Neighbours,
    Noise,
    Notion,
    PoolFile,
    QueriesPerSession,
    RoundsFlag,
    SessionsPerUser,
    Shape,
    Subsequences,
    Unit,
    Users,
    flag,
    pairs,
    per_user_bounds,
)
from murmurlog.cli.output import show, show_json, warn_about
from murmurlog.cli.plan_goal import plan_on_forecast
from murmurlog.errors import UsageError


@app.command()
def plan(
    mechanism: Mechanism = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    per_user: Annotated[
        str | None, flag("--per-user", help="Distinct items a unit. Default 10; 100 for rounds.")
    ] = None,
    noise: Noise = None,
    unit: Unit = "user",
    neighbours: Neighbours = "add-remove",
    letters: Letters = None,
    notion: Notion = None,
    users: Users = None,
    pool: PoolFile = None,
    fakes: Fakes = None,
    sessions_per_user: SessionsPerUser = None,
    queries_per_session: QueriesPerSession = None,
    subsequences: Subsequences = None,
    map: Map = None,
    rounds: RoundsFlag = None,
    count_share: CountShare = None,
    count_per_user: CountPerUser = None,
    set_only: Annotated[bool, typer.Option("--set-only", help="Keys without counts.")] = False,
    target: Annotated[
        str | None, typer.Option("--target", help="A wish: volume=0.4, or queries=10000.")
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", help="What the budget goes to: coverage or precision.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option("--profile", help="Foretell from what profile --epsilon has written."),
    ] = None,
    public: Annotated[
        str | None, typer.Option("--public", help="Foretell from a public or invented log.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", help="Foretell from a generated log: aol, zealous or plain."),
    ] = None,
    raw: Annotated[
        str | None, typer.Option("--raw", help="Foretell from the log itself: NOT protected.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Of item: query, keyword, click or pair.")
    ] = None,
    columns: Columns = None,
    encoding: Encoding = None,
    shape: Shape = None,
    memory: Memory = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Write the trade-off as chart and table to --out.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A .toml file for release; with --sweep a folder. Must be new."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Thresholds for a budget, or the budget for a wish, before the log is read."""
    bound = None if per_user is None else per_user_bounds(per_user)
    if isinstance(bound, dict):
        raise UsageError(f"plan is for one table: --per-user takes one number, not {per_user!r}")
    own: dict[str, Any] = {
        "rounds": rounds,
        "count_share": count_share,
        "count_per_user": count_per_user,
    }
    others: dict[str, Any] = {
        "letters": pairs(letters, "--set"),
        "noise": noise,
        "notion": notion,
        "pool": pool,
        "fakes": fakes,
        "sessions_per_user": sessions_per_user,
        "queries_per_session": queries_per_session,
        "subsequences": subsequences,
        "map": map,
    }
    if sweep or any(value is not None for value in (target, goal, profile, public, like, raw)):
        from murmurlog.logs.options import SourceOptions

        plan_on_forecast(
            target=target,
            goal=goal,
            epsilon=epsilon,
            terms={
                "delta": delta,
                "neighbours": neighbours,
                "set_only": set_only,
                "mechanism": mechanism,
                "per_user": bound,
                "options": {name: value for name, value in own.items() if value is not None},
            },
            others=others,
            source={
                "profile": profile,
                "public": public,
                "like": like,
                "raw": raw,
                "users": users,
                "kind": kind,
                "unit": unit,
                "read": SourceOptions(
                    columns=pairs(columns, "--columns"), encoding=encoding, shape=shape
                ),
                "memory": memory,
            },
            sweep=sweep,
            out=out,
            as_json=as_json,
        )
        return
    if out is not None:
        raise UsageError("--out is for what was foretold: give --target, --goal or --sweep, too")
    from murmurlog.publishing.options import plan_mechanism
    from murmurlog.publishing.planning.forecast import explain

    planned = plan_mechanism(
        mechanism,
        epsilon=epsilon,
        delta=delta,
        per_user=bound,
        unit=unit,
        neighbours=neighbours,
        users=users,
        set_only=set_only or None,
        **own,
        **others,
    )
    warn_about(planned.guarantee)
    if as_json:
        show_json(planned.as_json())
        return
    show(str(planned.mechanism))
    show(str(planned.guarantee))
    show(explain(planned))

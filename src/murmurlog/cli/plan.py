"""The command that foresees a release. Imports are late: --help answers at once."""

from typing import Annotated

from murmurlog.cli.app import app
from murmurlog.cli.flags import (
    CountPerUser,
    CountShare,
    Delta,
    Epsilon,
    Fakes,
    Json,
    Letters,
    Map,
    Mechanism,
    Neighbours,
    Noise,
    Notion,
    PoolFile,
    QueriesPerSession,
    RoundsFlag,
    SessionsPerUser,
    Subsequences,
    Unit,
    Users,
    flag,
    pairs,
    per_user_bounds,
)
from murmurlog.cli.output import show, show_json, warn_about
from murmurlog.errors import UsageError


@app.command()
def plan(
    mechanism: Mechanism = "threshold",
    epsilon: Epsilon = None,
    delta: Delta = None,
    per_user: Annotated[
        str | None, flag("--per-user", help="Distinct items a unit. Default 10.")
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
    as_json: Json = False,
) -> None:
    """Thresholds for a budget, before any data is read."""
    from murmurlog.road import planned_for

    bound = None if per_user is None else per_user_bounds(per_user)
    if isinstance(bound, dict):
        raise UsageError(f"plan is for one table: --per-user takes one number, not {per_user!r}")
    planned = planned_for(
        mechanism,
        epsilon=epsilon,
        delta=delta,
        per_user=bound,
        noise=noise,
        unit=unit,
        neighbours=neighbours,
        letters=pairs(letters, "--set"),
        users=users,
        notion=notion,
        pool=pool,
        fakes=fakes,
        sessions_per_user=sessions_per_user,
        queries_per_session=queries_per_session,
        subsequences=subsequences,
        map=map,
        rounds=rounds,
        count_share=count_share,
        count_per_user=count_per_user,
    )
    warn_about(planned.guarantee)
    if as_json:
        show_json(planned.as_json())
        return
    show(str(planned.mechanism))
    show(str(planned.guarantee))
    show(planned.sentence())

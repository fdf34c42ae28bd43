"""The log that a forecast is based on: a public log, a generated one, or the log itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

from murmurlog.errors import UsageError
from murmurlog.logs.inputs import LogSource, name_of
from murmurlog.logs.options import SourceOptions
from murmurlog.publishing.planning.stand_in_log import StandInLog, of_file, of_shape


@dataclass(frozen=True, kw_only=True)
class ForecastLog:
    """The stand-in log that a forecast is based on, and what its use means for the guarantee."""

    stand_in: StandInLog
    description: str
    kind: str
    exact: bool  # the owner's log itself


@dataclass(frozen=True, kw_only=True)
class ForecastSource:
    """Where to forecast from: at most one of the first three."""

    public: LogSource | None = None
    like: str | None = None
    raw: LogSource | None = None
    users: int | None = None
    kind: str | None = None
    unit: str = "user"
    read: SourceOptions = field(default_factory=SourceOptions)
    memory: str | None = None

    def __post_init__(self) -> None:
        names = ("public", "like", "raw")
        flags = [f"--{name}" for name in names if getattr(self, name) is not None]
        if len(flags) > 1:
            raise UsageError(f"{' and '.join(flags)} are two logs to forecast from: give one")
        if not flags and self.users is None:
            raise UsageError(
                "a forecast needs a log that is not secret: give --users N for a generated log (--like "
                "aol, zealous or plain), or --public FILE. --raw FILE reads your own log, and that is "
                "not protected."
            )
        if self.like is not None and self.users is None:
            raise UsageError(f"--like {self.like} needs --users: how many users the log has, about")

    def load(self, say: Callable[[str], None] = lambda _: None) -> ForecastLog:
        """The log to forecast from."""
        source = self.raw if self.public is None else self.public
        if source is not None:
            return self._file(source, say)
        users, like = self.users or 0, self.like or "plain"
        say(f"inventing a log of {users} users")
        kind = self.kind or "query"
        return ForecastLog(
            stand_in=of_shape(like, users=users, kind=kind, unit=self.unit),
            description=f"a generated log, {like}, {users} users",
            kind=kind,
            exact=False,
        )

    def _file(self, source: LogSource, say: Callable[[str], None]) -> ForecastLog:
        name, kind = name_of(source), self.kind or "query"
        say(f"reading {name}")
        stand_in = of_file(
            source,
            kind=kind,
            unit=self.unit,
            read_as=self.read,
            memory=self.memory,
        )
        if self.public is not None and self.users:
            stand_in = stand_in.part(self.users)
        what = (
            "the public log"
            if self.public is not None
            else "the log itself, which is not protected:"
        )
        return ForecastLog(
            stand_in=stand_in,
            description=f"{what} {name}, {stand_in.units} {self.unit}s",
            kind=kind,
            exact=self.public is None,
        )

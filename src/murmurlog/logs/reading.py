"""Which rows of a source are read and how their text is cleaned, as one value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from murmurlog.bundle.canonical import CHOICES
from murmurlog.bundle.keys import NORMALISER
from murmurlog.bundle.schema import BY_VALUE, By, check_public_name
from murmurlog.logs.broken_rows import check_broken
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import Log, read
from murmurlog.logs.log import check as check_rows
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.screen import Screen, load, load_deny, matcher
from murmurlog.logs.source import Source
from murmurlog.privacy.sampler import Entropy


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Which rows of a source count and how their text is cleaned; all of it public parameters."""

    url: str = "path"
    keys: str | None = None  # the rules for canonical keys, by their name in a certificate
    since: str | None = None
    until: str | None = None
    where: Mapping[str, str] | None = None
    by: By | None = None
    screen: Screen | None = None
    deny: frozenset[str] = frozenset()
    strict: bool = False
    max_broken: float = 1.0  # the share of broken rows with which the log may still be used

    @classmethod
    def of(cls, options: ReadOptions, *, by: tuple[str, Sequence[str]] | None = None) -> "Reading":
        """From the owner's options; loads the screen and the denied queries."""
        return cls(
            url=options.url,
            keys=CHOICES[options.keys],
            since=options.since,
            until=options.until,
            where=options.where or None,
            by=By(column=by[0], values=tuple(by[1])) if by else None,
            screen=load(Path(options.patterns) if options.patterns else None)
            if options.screen
            else None,
            deny=load_deny(Path(options.deny)) if options.deny else frozenset(),
            strict=options.strict,
            max_broken=options.max_broken,
        )

    def check(self, source: Source) -> None:
        """Raises if the source cannot be read this way; reads no row."""
        keep = (self.by.column,) if self.by else ()
        if self.by:
            check_public_name(self.by.column)
        check_rows(source, since=self.since, until=self.until, where=self.where, keep=keep)

    def read(
        self,
        source: Source,
        *,
        engine: Engine,
        urls: bool,
        unit: str = "user",
        entropy: Entropy | None = None,
        say: Callable[[str], None],
    ) -> Log:
        """The log; raises if too many of its rows are broken, and warns if some are."""
        log = read(
            source,
            engine=engine,
            url=self.url if urls else None,
            keys=self.keys,
            strict=self.strict,
            since=self.since,
            until=self.until,
            where=self.where,
            keep={BY_VALUE: self.by.column} if self.by else None,
            screen=self.screen,
            deny=self.deny,
            unit=unit,
            entropy=entropy,
            say=say,
        )
        check_broken(
            source, rows=log.rows, broken=log.broken, screened=log.screened,
            period=bool(self.since or self.until), max_broken=self.max_broken, say=say,
        )  # fmt: skip
        return log

    def allowed(self, table: pa.Table) -> pa.Table:
        """The rows whose queries are neither denied nor screened: public keys may hold such queries."""
        is_denied = matcher(self.deny, self.keys)
        keep = np.ones(table.num_rows, bool)
        for column in ("query", "next_query"):
            if column in table.column_names:
                for place, query in enumerate(table[column].to_pylist()):
                    if is_denied(query) or (self.screen and self.screen.hits(query)):
                        keep[place] = False
        return table.filter(pa.array(keep))

    def as_json(self) -> dict[str, Any]:
        """For the certificate; which queries were denied is the owner's."""
        return {
            "normaliser": NORMALISER,
            "url": self.url,
            "screen": list(self.screen.names) if self.screen else [],
            "deny": bool(self.deny),
            "since": self.since,
            "until": self.until,
            "where": dict(self.where) if self.where else None,
            "keys": self.keys,
        }

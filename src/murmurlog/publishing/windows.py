"""Windows of a release: keys may be selected from one period and counted over another.

Both are public and say which rows of a unit are read, so neither changes what the release costs:
docs/explanation/published-keys.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from murmurlog.bundle.certificate import ALL
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.log import moment_of
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.source import Source
from murmurlog.mechanisms import find_mechanism
from murmurlog.publishing.request import Content


@dataclass(frozen=True, kw_only=True)
class Windows:
    """From when on rows are read for the selection and for the counts; None: all rows."""

    select_from: datetime | None = None
    count_from: datetime | None = None
    stated: Mapping[str, str] | None = None  # as the owner wrote them; None if there are no windows


def find_windows(
    content: Content,
    read: ReadOptions,
    mechanisms: Mapping[str, str],
    *,
    source: Source,
) -> Windows:
    """The windows that the owner chose; raises where they cannot be used. Reads no row."""
    texts = {"select_from": content.select_from, "count_from": content.count_from}
    if not any(texts.values()):
        return Windows()
    moments = {}
    for name, text in texts.items():
        flag = "--" + name.replace("_", "-")
        moments[name] = _moment(flag, text, read, source)
        if text is not None:
            _check(flag, mechanisms)
    if content.set_only and content.count_from:
        raise UsageError("--count-from is about counts, and --set-only publishes none")
    if moments["select_from"] != moments["count_from"] and content.consecutive:
        raise UsageError(
            "--consecutive cuts runs from the rows that keys are selected from: leave it out, or give "
            "--select-from and --count-from the same date"
        )
    return Windows(**moments, stated={name: text or ALL for name, text in texts.items()})


def _moment(flag: str, text: str | None, read: ReadOptions, source: Source) -> datetime | None:
    if text is None or text == ALL:
        return None
    start = moment_of(flag, text)
    since, until = moment_of("--since", read.since), moment_of("--until", read.until)
    if start is not None and since is not None and start < since:
        raise UsageError(f"{flag} {text} is before --since {read.since}, from which rows are read")
    if start is not None and until is not None and start >= until:
        raise UsageError(f"{flag} {text} is not before --until {read.until}: no row is between")
    if "time" not in source.columns:
        raise InputError(
            f"{source.name} has no time column, so {flag} cannot be applied. Map one with --columns time=..."
        )
    return start


def _check(flag: str, mechanisms: Mapping[str, str]) -> None:
    if other := [name for name in mechanisms.values() if not find_mechanism(name).takes_windows]:
        raise UsageError(f"{flag} is for rounds, not for {other[0]}: use --since, or leave it out")

"""The options of a private profile. Imports little, because --help reads them."""

from dataclasses import dataclass
from typing import Annotated

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import Group, Option, read_number
from murmurlog.publishing.request import Privacy

PER_USER = 20


@dataclass(frozen=True, kw_only=True)
class Measured(Privacy):
    """Budget and unit of privacy."""

    # epsilon spends budget, so an environment variable for releases does not set it.
    epsilon: Annotated[
        float | None,
        Option(help="Measure with noise, at this cost per unit.", read=read_number, variable=False),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(Group):
    """Private profile."""

    kind: Annotated[
        str, Option(help="With --epsilon: query, keyword, click or pair.", variable=False)
    ] = "query"
    per_user: Annotated[
        int, Option(help="With --epsilon: distinct items a unit.", read=integer, variable=False)
    ] = PER_USER
    bound: Annotated[
        str | None,
        Option(help="first (by time) or random. Default first if there are times."),
    ] = None

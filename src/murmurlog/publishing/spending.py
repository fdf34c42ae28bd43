"""What was spent by a release that is stopped, as its ledger has it.

A stop can come between any two steps, also between a commit of the ledger and the next line of code.
So nothing is remembered on the way: the ledger and the output itself are asked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from murmurlog.errors import MurmurlogError
from murmurlog.publishing.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Spending:
    """A release that was begun.

    `published` tells whether its output is there.
    """

    book: Ledger | None
    release_id: str
    out: str
    published: Callable[[], bool]

    def sentence(self) -> str:
        """What is booked and published; a booking without its output is marked as not published."""
        there = self.published()
        public = f"; {publication(there, self.out)}"
        try:
            entry = self.book.find(self.release_id) if self.book else None
            if entry and self.book and not there and entry.state == "committed":
                self.book.reopen(self.release_id)
        except MurmurlogError as error:
            return (
                f"look for {self.release_id} in the ledger, which cannot be read ({error}){public}"
            )
        if entry is None:
            return f"nothing was booked{public}"
        return (
            f"epsilon {entry.epsilon:.6g}, delta {entry.delta:.3g} stay booked on source "
            f"{entry.source} as {self.release_id}{public}"
        )


def publication(there: bool, out: str) -> str:
    """Whether the output is there, in words."""
    return f"{out} was published" if there else "nothing was published"


_last: list[Spending] = []  # at most one


@contextmanager
def spending(begun: Spending) -> Iterator[None]:
    """Around everything from the first row to the output. Adds to a stop what was spent."""
    _last[:] = [begun]
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) or str(error) == "Query interrupted":  # DuckDB's
            error.add_note(begun.sentence())
        raise


def last_sentence() -> str:
    """What was spent by the last release that this process began."""
    return _last[0].sentence() if _last else "nothing was booked"

"""The tasks with their truth: each is run on a system's tables and scored against the log.

To add one: a file here, what it computes from tables in `tasks/`, a line in TRIALS, a section in
docs/evaluate.md, and a case small enough to do by hand in the tests.
"""

from murmurlog.trials.trial import Settings, Trial, Unfit

TRIALS: dict[str, Trial] = {}

__all__ = ["TRIALS", "Settings", "Trial", "Unfit"]

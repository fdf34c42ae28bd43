"""The tasks with their truth: each is run on a system's tables and scored against the log.

To add one: a file here, what it computes from tables in `tasks/`, a line in TRIALS, a section in
docs/evaluate.md, and a case small enough to do by hand in the tests.
"""

from murmurlog.trials.ad_hoc import AdHocSearch
from murmurlog.trials.completions import Completions
from murmurlog.trials.corrections import Spelling
from murmurlog.trials.index_caching import IndexCaching
from murmurlog.trials.keyword_generation import KeywordGeneration
from murmurlog.trials.session_search import SessionSearch
from murmurlog.trials.sites import QueryClassification, Sites
from murmurlog.trials.statistics import Statistics
from murmurlog.trials.substitutions import QuerySubstitution
from murmurlog.trials.suggestions import Suggestions
from murmurlog.trials.top_lists import TopLists
from murmurlog.trials.trial import Settings, Trial, Unfit

_ALL: tuple[Trial, ...] = (
    Statistics(),
    AdHocSearch(),
    Suggestions(),
    SessionSearch(),
    IndexCaching(),
    QuerySubstitution(),
    KeywordGeneration(),
    TopLists(),
    Spelling(),
    Sites(),
    QueryClassification(),
    Completions(),
)
TRIALS: dict[str, Trial] = {trial.name: trial for trial in _ALL}

__all__ = ["TRIALS", "Settings", "Trial", "Unfit"]

"""The tasks with their truth: each is run on a system's tables and scored against the log.

To add one: a file here, what it computes from tables in `tasks/`, a line in TRIALS, a page in
docs/reference/tasks/, and a case small enough to do by hand in the tests.
"""

from murmurlog.evaluation.tasks.ad_hoc import AdHocSearch
from murmurlog.evaluation.tasks.autocomplete import Completions
from murmurlog.evaluation.tasks.index_caching import IndexCaching
from murmurlog.evaluation.tasks.keyword_generation import KeywordGeneration
from murmurlog.evaluation.tasks.protocol import Settings, Trial, Unfit
from murmurlog.evaluation.tasks.session_search import SessionSearch
from murmurlog.evaluation.tasks.sites import QueryClassification, Sites
from murmurlog.evaluation.tasks.spelling import Spelling
from murmurlog.evaluation.tasks.statistics import Statistics
from murmurlog.evaluation.tasks.substitution import QuerySubstitution
from murmurlog.evaluation.tasks.suggestion import Suggestions
from murmurlog.evaluation.tasks.top_list import TopLists

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

"""Götz et al. 2012, ZEALOUS: its experiments and the log they run on."""

from papers.experiments import zealous_applications, zealous_statistics
from papers.experiments.experiment import Experiment, LogSpec
from papers.experiments.runner import Paper

_SAME = (
    "Neighbours replace a user, delta is 0.001, and each table has all of epsilon, as in the paper."
)

PAPER = Paper(
    name="zealous",
    title="ZEALOUS (Götz et al. 2012)",
    spec=LogSpec(like="zealous", users=500_000, seed=1, paper_users=500_000),
    experiments=(
        Experiment(
            name="zealous.table-3",
            about="distinct items and total counts by m",
            run=zealous_statistics.table_3,
            setting=f"{_SAME} The paper does not say epsilon; it is 5 here. A user's first m items count.",
        ),
        Experiment(
            name="zealous.figures-2-3",
            about="coverage and precision of the top j by m, probabilistic DP and DP",
            run=zealous_statistics.figures_2_3,
            setting=f"{_SAME} Epsilon is 5. KL is made finite where items are missing.",
        ),
        Experiment(
            name="zealous.figure-4",
            about="the distribution of counts, probabilistic DP and DP",
            run=zealous_statistics.figure_4,
            setting=_SAME,
        ),
        Experiment(
            name="zealous.figure-5",
            about="the average difference of counts by epsilon and k, probabilistic DP and DP",
            run=zealous_statistics.figure_5,
            setting=f"{_SAME} Pairs of k-query need k users, too.",
        ),
        Experiment(
            name="zealous.figure-6",
            about="index caching by epsilon, k and m",
            run=zealous_applications.figure_6,
            setting=f"{_SAME} Words are those of held-out users, one in five; document frequencies are generated.",
        ),
        Experiment(
            name="zealous.figures-7-8",
            about="query substitution by epsilon, k and m",
            run=zealous_applications.figures_7_8,
            setting=f"{_SAME} At most 10,000 of the 100,000 most frequent queries are asked.",
        ),
    ),
)

"""The experiments of the four papers, each by its name.

To add one: a function of a prepared log that returns what it measured, an `Experiment` in the module of the
paper, and a line on docs/explanation/reproduce-experiments.md.
"""

from murmurlog.evaluation.reproduce.experiments import hong, korolova, safelog, zealous
from murmurlog.evaluation.reproduce.experiments.runner import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper for paper in (korolova.PAPER, zealous.PAPER, hong.PAPER, safelog.PAPER)
}

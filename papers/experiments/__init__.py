"""The experiments of the four papers, each by its name.

To add one: a function of a prepared log that returns what it measured, an `Experiment` in the module of the
paper, and a line on docs/explanation/reproduce-experiments.md.
"""

from papers.experiments import hong, korolova, safelog, zealous
from papers.experiments.runner import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper for paper in (korolova.PAPER, zealous.PAPER, hong.PAPER, safelog.PAPER)
}

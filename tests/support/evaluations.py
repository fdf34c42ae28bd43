"""Evaluations by hand, for tests of their report."""

from murmurlog.evaluation.result import Evaluation, Point, Skipped, System
from murmurlog.evaluation.scores import Comparison, Result
from murmurlog.privacy import Guarantee

HOSTILE = "<script>alert(1)</script>"
SHARES = ("query volume kept (rows)", "query distinct kept", "click volume kept (rows)")


def make_result(system, task, measure, value, low=None, high=None, n=100):
    return Result(
        system=system, task=task, measure=measure, value=value, low=low, high=high, n=n
    )  # fmt: skip


def make_system(name, kind="mechanism", epsilon=None, budget=None, rows=None):
    guarantee = None if kind == "raw" else Guarantee.nothing()
    if epsilon is not None:
        guarantee = Guarantee(epsilon=epsilon, delta=1e-6)
    return System(
        name=name,
        kind=kind,
        guarantee=guarantee,
        rows=rows or {"query": 1234},
        budget=budget or {},
    )


def make_evaluation(*, hostile=False, epsilons=(1.0, 1.0)):
    """Raw, two mechanisms and a baseline on statistics and a task."""
    first = HOSTILE if hostile else "rounds"
    systems = (
        make_system("raw", "raw"),
        make_system(first, "bundle", epsilons[0], {"query": 0.7, "click": 0.6}),
        make_system("zealous", "mechanism", epsilons[1]),
        make_system("k-query:20"),
    )
    worth = dict(zip((s.name for s in systems), (1.0, 0.4, 0.1, 0.5), strict=True))
    results = []
    for name, value in worth.items():
        results += [
            make_result(name, "statistics", m, value, value - 0.05, value + 0.05) for m in SHARES
        ]
        results += [
            make_result(name, "statistics", f"query coverage@{j}", value / j, n=j)
            for j in (1, 2, 4)
        ]
        answered = round(100 * value)
        results += [
            make_result(name, "suggestion", "coverage", value, n=100),
            make_result(name, "suggestion", "P@5 (covered)", 0.5, 0.45, 0.55, n=answered),
            make_result(name, "suggestion", "P@5 (all)", value / 2, 0.0, 0.9, n=100),
            make_result(name, "suggestion", "P@5, lambda 0 (all)", value / 2),
            make_result(name, "suggestion", "P@5, lambda 0.5 (all)", value / 3),
            make_result(name, "suggestion", "P@5, lambda 1 (all)", value / 4),
        ]  # fmt: skip
    ranks = {
        name: [(1, 90, True), (2, 50, name == "raw"), (3, 10, name == "raw")]
        for name in worth
    }  # fmt: skip
    return Evaluation(
        results=tuple(results),
        comparisons=(
            Comparison(system=first, against="raw", task="suggestion", measure="P@5",
                       difference=-0.3, p=0.00001, n=100),
            Comparison(system="zealous", against="raw", task="suggestion", measure="P@5",
                       difference=-0.01, p=0.4, n=100),
        ),
        skipped=(Skipped(system="k-query:20", task="ad-hoc", why="needs a click table"),),
        top_list=(("fear of <b>flying</b>", 1, {"raw": 1, first: 1, "zealous": None}),),
        systems=systems,
        how="Re-run on the training users of 5 folds.",
        settings={"folds": 5, "repeats": 1, "tasks": ["statistics", "suggestion"]},
        log={"rows": 4321, "users": 765},
        ranks=ranks,
    )  # fmt: skip


def make_sweep(vary="epsilon"):
    """Two mechanisms at three values, and a baseline."""
    values = (1.0, 2.0, 4.0)
    systems = [make_system("k-query:20")]
    results = [make_result("k-query:20", "statistics", m, 0.6) for m in SHARES]
    points = []
    for name, factor in (("rounds", 0.2), ("zealous", 0.1)):
        for at in values:
            variant = f"{name} {vary}={at:g}"
            systems.append(make_system(variant, epsilon=at if vary == "epsilon" else 1.0))
            told = [make_result(variant, "statistics", m, factor * at) for m in SHARES]
            told += [
                make_result(variant, "statistics", "query items per user", 7.25),
                make_result(variant, "completion", "MRR (all)", factor * at / 2, n=int(10 * at)),
                make_result(variant, "completion", "MRR (covered)", 0.9, n=int(5 * at)),
            ]
            results += told
            for each in told:
                same = make_result(name, each.task, each.measure, each.value, n=each.n)
                points.append(Point(vary=vary, at=at, of=variant, result=same))
    return Evaluation(
        results=tuple(results),
        comparisons=(),
        skipped=(),
        systems=tuple(systems),
        how="Made for this alone.",
        settings={"vary": vary},
        log={"rows": 4321, "users": 765},
        ranks={},
        points=tuple(points),
    )

"""The experiments of the papers: what is stored and taken again, what is judged, and one of each paper."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from command import run as run_command

import murmurlog
from murmurlog.errors import UsageError
from murmurlog.logs.invented.generate import invent
from murmurlog.mechanisms.hong.histories import preprocess
from papers import __main__ as papers_command
from papers.experiments import PAPERS, page
from papers.experiments.experiment import (
    Chart,
    Claim,
    Experiment,
    LogSpec,
    Measured,
    Outcome,
    Row,
    at_least,
    order,
    trend,
)
from papers.experiments.prepared_log import PreparedLog
from papers.experiments.reasons import WHY
from papers.experiments.runner import Paper, run
from papers.experiments.zealous_applications import document_frequencies
from papers.hong import clicks

run_papers = partial(run_command, main=papers_command.main)
SPEC = LogSpec(like="aol", users=1000, seed=1, paper_users=1000)
FOUND = Measured(
    rows=[Row(name="a", printed=2, measured=3.0), Row(name="b", printed=1, measured=math.nan)],
    claims=[Claim(text="it rises", holds=True, found="1 at 1, 2 at 2")],
    charts=[Chart(title="A line", x_label="x", series={"y": [(1, 1.0), (2, math.nan), (3, 2.0)]})],
    notes=["a note"],
)


def paper(*runs):
    """A paper with an experiment for each function, called p.one, p.two, ..."""
    names = ("p.one", "p.two", "p.three")
    made = [Experiment(name=n, about="about", run=f) for n, f in zip(names, runs, strict=False)]
    return Paper(name="p", title="P", spec=SPEC, experiments=tuple(made))


class CountingExperiment:
    """An experiment that counts how often it runs."""

    def __init__(self):
        self.runs = 0

    def __call__(self, log):
        self.runs += 1
        return FOUND


def broken(log):
    raise ValueError("no such thing")


def test_a_stored_result_is_taken_again_and_is_the_same(tmp_path):
    one = CountingExperiment()
    (first,), (second,) = (run(paper(one), work=tmp_path) for _ in range(2))
    assert one.runs == 1
    assert (first.stored, second.stored) == (False, True)
    assert first.as_json()["measured"] == second.as_json()["measured"]


@pytest.mark.parametrize("other", [{"seed": 2}, {"users": 2000}])
def test_another_log_is_another_result(tmp_path, other):
    one = CountingExperiment()
    run(paper(one), work=tmp_path)
    run(paper(one), work=tmp_path, **other)
    assert one.runs == 2


def test_another_version_measures_again(tmp_path, monkeypatch):
    one = CountingExperiment()
    run(paper(one), work=tmp_path)
    monkeypatch.setattr(murmurlog, "__version__", "99")
    (again,) = run(paper(one), work=tmp_path)
    assert (one.runs, again.stored) == (2, False)


@pytest.mark.parametrize("text", ["", "[]", '{"key": 1}'])
def test_a_result_that_cannot_be_read_is_measured_again(tmp_path, text):
    one = CountingExperiment()
    run(paper(one), work=tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text(text)
    (again,) = run(paper(one), work=tmp_path)
    assert (one.runs, again.stored) == (2, False)


def test_a_failure_is_reported_does_not_stop_the_others_and_is_tried_again(tmp_path):
    said, last = [], CountingExperiment()
    for _ in range(2):
        found = run(paper(broken, last), work=tmp_path, say=said.append)
        assert [outcome.verdict for outcome in found] == ["failed", "agrees"]
        assert found[0].summary == "ValueError: no such thing"
    assert last.runs == 1
    assert said.count("p.one failed: ValueError: no such thing") == 2


def test_only_runs_what_is_named(tmp_path):
    one, two = CountingExperiment(), CountingExperiment()
    for name in ("two", "p.two"):
        (found,) = run(paper(one, two), work=tmp_path, only=[name])
        assert found.experiment.name == "p.two"
    assert (one.runs, two.runs) == (0, 1)


def test_an_unknown_name_is_said_before_anything_runs(tmp_path):
    one = CountingExperiment()
    with pytest.raises(UsageError, match=r"no 'p.oen': use p.one.* Did you mean 'p.one'\?"):
        run(paper(one), work=tmp_path, only=["oen"])
    assert one.runs == 0


def test_a_log_too_small_to_hold_users_out_is_refused(tmp_path):
    with pytest.raises(UsageError, match="at least 100, not 99"):
        run(paper(CountingExperiment()), work=tmp_path, users=99)


@pytest.mark.parametrize(
    ("measured", "sized", "users", "verdict"),
    [
        (50.0, False, 1000, "agrees"),
        (200.0, False, 1000, "agrees"),
        (49.0, False, 1000, "differs"),
        (0.0, False, 1000, "differs"),
        (100.0, True, 800, "agrees"),
        (100.0, True, 799, "cannot be compared"),
        (math.nan, False, 1000, "cannot be compared"),
    ],
)
def test_a_printed_number_is_compared_within_a_factor_of_two(measured, sized, users, verdict):
    row = Row(name="n", printed=100, measured=measured, sized=sized)
    experiment = paper(CountingExperiment()).experiments[0]
    outcome = Outcome(experiment=experiment, spec=replace(SPEC, users=users), measured=FOUND)
    assert outcome.row_verdict(row) == verdict
    assert bool(outcome.row_reason(row)) == (verdict == "cannot be compared")


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ([1, 2, 3], True),
        ([1, 2, 1.95, 3], True),  # a step back within a tenth of the range
        ([1, 2, 1.5, 3], False),
        ([3, 2, 1], False),
        ([0, 0, 0], None),
        ([1, math.nan], None),
    ],
)
def test_a_trend_allows_small_steps_back_and_says_nothing_about_constants(values, holds):
    assert trend("it rises", list(enumerate(values)), up=True).holds is holds
    down = trend("it falls", [(x, -y) for x, y in enumerate(values)], up=False)
    assert down.holds is holds


def test_counts_of_few_items_say_nothing():
    points = [(1, 9), (2, 3)]
    assert trend("it falls", points, up=False).holds is True
    assert trend("it falls", points, up=False, least=10).holds is None


def test_orders_and_least_values():
    assert order("a over b", {"a": 2, "b": 1}).holds is True
    assert order("a over b", {"a": 1, "b": 2}).holds is False
    assert order("a over b", {"a": 0, "b": 0}).holds is None
    assert at_least("enough", 0.5, 0.5).holds is True
    assert at_least("enough", 0.4, 0.5).holds is False
    assert at_least("enough", math.nan, 0.5).holds is None


def test_effects_decide_and_one_that_is_not_found_is_enough():
    def verdict(*holds):
        claims = [Claim(text="t", holds=each, found="f") for each in holds]
        experiment = paper(CountingExperiment()).experiments[0]
        return Outcome(experiment=experiment, spec=SPEC, measured=Measured(claims=claims)).verdict

    assert verdict(True, None) == "agrees"
    assert verdict(True, False) == "differs"
    assert verdict(None) == verdict() == "cannot be compared"


def test_the_page_has_figures_verdicts_and_reasons(tmp_path):
    found = run(paper(CountingExperiment(), broken), work=tmp_path, users=200)
    text = page.page("P", found)
    assert text.count("<svg") == 1
    assert "1 of 1 effects" in text
    assert "ValueError: no such thing" in text
    assert "nothing was measured" in text
    assert "smaller than the 1,000 at which the effects are expected" in text


def test_flags_of_experiments_need_it(tmp_path):
    done = run_papers("zealous", "--users", "500", cwd=tmp_path)
    assert done.returncode == 2
    assert "--users goes with --experiments" in done.stderr
    done = run_papers("--experiments", "--only", "table-3", cwd=tmp_path)
    assert done.returncode == 2
    assert "for one paper: name it" in done.stderr
    done = run_papers("zeal", "--experiments", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown paper 'zeal'" in done.stderr


def test_the_command_prints_json_writes_the_page_and_takes_results_again(tmp_path):
    given = ("hong", "--experiments", "--users", "200", "--only", "table-2", "--json")
    for stored in (False, True):
        done = run_papers(*given, "--out", "w", cwd=tmp_path)
        (found,) = json.loads(done.stdout)["experiments"]
        assert found["stored"] is stored
    assert (tmp_path / "w" / "hong.html").exists()
    kept = preprocess(clicks(invent(rows=11_070, seed=1, like="aol").table)).histories
    rows = {row["name"]: row for row in found["measured"]["rows"]}
    assert rows["user logs"]["measured"] == kept.users
    assert rows["total tuples"]["measured"] == kept.rows
    assert rows["total tuples"]["reason"] == "it grows with the log"


def test_every_experiment_has_a_name_of_its_paper_and_is_on_the_page_of_the_documents():
    page = Path(__file__).parents[2] / "docs" / "explanation" / "reproduce-experiments.md"
    listed = re.findall(r"^\| `([a-z]+\.[a-z0-9-]+)` \|", page.read_text(), re.MULTILINE)
    names = [each.name for paper in PAPERS.values() for each in paper.experiments]
    assert sorted(names) == sorted(set(names)) == sorted(set(listed))
    for name, each in PAPERS.items():
        assert all(one.name.startswith(f"{name}.") for one in each.experiments)


def test_documents_depend_on_the_word_alone_and_short_words_have_more():
    found = document_frequencies(["an", "an-other-long-word"])
    assert found["an"] > 1000 * found["an-other-long-word"] > 0
    assert document_frequencies(["an"])["an"] == found["an"]


@pytest.fixture(scope="module")
def run_small(tmp_path_factory):
    """A function that runs one experiment on 400 users, in one folder for all."""
    work = tmp_path_factory.mktemp("work")

    def measure(name):
        (outcome,) = run(PAPERS[name.partition(".")[0]], work=work, users=400, only=[name])
        assert outcome.error == ""
        return outcome.measured

    return measure


@pytest.mark.slow
def test_zealous_publishes_less_as_m_grows_and_repeats_with_its_seed(run_small, tmp_path):
    found = run_small("zealous.table-3")
    values = {row.name: row.measured for row in found.rows}
    assert len(values) == 40
    assert values["keyword distinct, m=1"] > values["keyword distinct, m=40"]
    (again,) = run(PAPERS["zealous"], work=tmp_path, users=400, only=["table-3"])
    assert again.measured.as_json() == found.as_json()


@pytest.mark.slow
def test_korolova_has_a_lower_threshold_than_printed(run_small):
    values = {row.name: row for row in run_small("korolova.volume").rows}
    for d in (1, 5, 10, 20, 40, 80, 160):
        row = values[f"K, d = {d}"]
        assert 0.8 * row.printed < row.measured <= row.printed


def test_the_largest_output_of_hong_keeps_its_bound(run_small):
    found = run_small("hong.table-3")
    kept = preprocess(clicks(invent(rows=22_140, seed=1, like="aol").table)).histories
    for row in found.rows:
        assert 0 < row.measured < row.printed
        assert row.bound < row.printed
    most = max(row.measured for row in found.rows)
    assert most <= kept.users * math.log(2.3)


@pytest.mark.slow
def test_safelog_loses_data_as_k_grows(run_small):
    found = run_small("safelog.figure-4-2")
    values = {row.name: row.measured for row in found.rows}
    assert values["KA, K = 10"] > values["KA, K = 100"]
    assert values["KA, K = 10"] >= values["DP_C, K = 10"]


def test_a_log_that_was_stopped_half_way_is_generated_again(tmp_path, monkeypatch):
    log = PreparedLog(replace(SPEC, users=100), tmp_path, lambda _: None)
    module = "papers.experiments.prepared_log.generate"

    def stop(*, out, **_):
        out.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, stop)
        with pytest.raises(KeyboardInterrupt):
            log.write()
    assert list(tmp_path.iterdir()) == []
    assert log.write().stat().st_size > 1000


def test_a_reason_is_shown_where_something_differs_and_only_there():
    names = {experiment.name for paper in PAPERS.values() for experiment in paper.experiments}
    assert names >= WHY.keys()
    (experiment,) = (e for p in PAPERS.values() for e in p.experiments if e.name == "safelog.p-g")
    spec = LogSpec(like="aol", users=1000, seed=1, paper_users=None)

    def outcome(holds, measured):
        claims = [Claim(text="it grows", holds=holds, found="")]
        rows = [Row(name="n", printed=1.0, measured=measured)]
        found = Measured(rows=rows, claims=claims)
        return Outcome(experiment=experiment, spec=spec, measured=found)

    for case in (outcome(False, 1.0), outcome(True, 9.0)):
        assert case.why == WHY["safelog.p-g"] == case.as_json()["why"]
        assert "a fifth of the users" in page.page("SafeLog", [case])
    fine = outcome(True, 1.0)
    assert fine.why == ""
    assert "a fifth of the users" not in page.page("SafeLog", [fine])

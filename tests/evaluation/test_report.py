"""The report of an evaluation: what is drawn and told, that it is marked, and where it may go."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from evaluations import HOSTILE, SHARES, make_evaluation, make_result, make_sweep
from pages import read_page

from murmurlog.charts.charts import BARS, COLUMN, NONE_AT
from murmurlog.charts.svg import NEUTRAL
from murmurlog.errors import UsageError
from murmurlog.evaluation import figures as pictures
from murmurlog.evaluation import report


def parse(svg):
    return ElementTree.fromstring(svg)


def elements(svg, tag):
    return list(parse(svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


# --- the mark -------------------------------------------------------------------------------------


def test_it_is_marked_internal_for_people_and_for_machines():
    page = report.page(make_evaluation())
    assert '<meta name="murmurlog-report" content="internal">' in page
    text = read_page(page)
    assert text.index("INTERNAL. This report was made from the raw log.") < text.index(
        "Privacy label"
    )
    assert "not differentially private" in text
    assert "Do not publish it" in text


def test_it_is_never_written_into_a_bundle(tmp_path):
    (tmp_path / "privacy.json").write_text("{}")
    (tmp_path / "data").mkdir()
    for out in (tmp_path / "r.html", tmp_path / "data" / "r.html"):
        with pytest.raises(
            UsageError, match="inside a bundle, and an internal report is never part"
        ):
            report.write(make_evaluation(), out)
        with pytest.raises(UsageError, match="inside a bundle"):
            report.write_folder(make_sweep(), out.with_suffix(""))
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["data", "privacy.json"]


# --- what is told ---------------------------------------------------------------------------------


def test_everything_is_in_the_page():
    text = read_page(report.page(make_evaluation()))
    assert "4 systems compared on 4,321 rows of 765 users. Re-run on the training users" in text
    assert "rounds one user, add-remove × 2.72 1 1e-06 1,234 query" in text
    assert "k-query:20 † nobody: no guarantee" in text
    assert "What survives at epsilon 1" in text
    assert "ad-hoc k-query:20 needs a click table" in text
    assert "P@5 rounds raw † -0.3000 < 0.001 100" in text
    assert "P@5 (all) 0.5 0 to 0.9, n 100 0.2 0 to 0.9, n 100" in text
    assert "folds: 5; repeats: 1; tasks: statistics, suggestion" in text


def test_the_top_list_is_there_rank_by_rank():
    page = report.page(make_evaluation())
    assert "A top list, rank by rank" in page
    assert "fear of &lt;b&gt;flying&lt;/b&gt;" in page
    assert "A top list" not in report.page(replace(make_evaluation(), top_list=()))


def test_a_difference_that_may_be_chance_is_grey():
    page = report.page(make_evaluation())
    grey = [row for row in re.findall(r'<tr class="dim">.*', page) if "P@5" in row]
    assert len(grey) == 1
    assert "zealous" in grey[0]


def test_hostile_names_stay_texts():
    evaluation = make_evaluation(hostile=True)
    page = report.page(replace(evaluation, how=HOSTILE, settings={HOSTILE: HOSTILE}))
    assert HOSTILE not in page
    assert read_page(page).count("alert(1)") > 10
    for name, svg in report.charts(evaluation).items():
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert not elements(svg, "script")


def test_what_is_not_finite_is_said_and_not_drawn(tmp_path):
    evaluation = make_evaluation()
    odd = [make_result("rounds", "statistics", f"query KL@{j}", math.inf, n=j) for j in (1, 2, 4)]
    odd += [make_result("rounds", "spelling", "corrected (all)", math.nan)]
    evaluation = replace(evaluation, results=(*evaluation.results, *odd))
    assert "query KL@1 – ∞" in read_page(report.page(evaluation))
    report.write(evaluation, tmp_path / "r.html")
    results = json.loads((tmp_path / "r.json").read_text(), parse_constant=lambda c: pytest.fail(c))
    assert [r["value"] for r in results["results"][-2:]] == [None, None]


def test_an_evaluation_of_nothing_is_a_page():
    evaluation = make_evaluation()
    nothing = replace(evaluation, results=(), comparisons=(), skipped=(), ranks={}, log={})
    assert "4 systems compared. Re-run" in read_page(report.page(nothing))
    assert set(report.charts(nothing)) == {"budget-rounds"}


# --- what is drawn --------------------------------------------------------------------------------


def test_bars_have_covered_and_all_beside_each_other():
    svg = report.charts(make_evaluation())["suggestion-p-5"]
    rects = elements(svg, "rect")
    pale = [r for r in rects if "pale" in r.get("class")]
    solid = [r for r in rects if "pale" not in r.get("class")]
    assert len(solid) == len(pale) == 4
    widths = [float(r.get("width")) for r in solid]
    assert widths == pytest.approx([w * widths[0] for w in (1.0, 0.4, 0.1, 0.5)], abs=0.2)
    assert (
        len({float(r.get("width")) for r in pale}) == 1
    )  # which is what makes small ones look good
    assert solid[0].get("class") == f"fill{NEUTRAL}"  # the raw log is grey


def test_a_system_without_an_answer_has_no_score_on_the_covered():
    evaluation = make_evaluation()
    results = tuple(
        replace(r, n=0, value=math.nan)
        if (r.system, r.measure) == ("zealous", "P@5 (covered)")
        else r
        for r in evaluation.results
    )
    evaluation = replace(evaluation, results=results)
    svg = report.charts(evaluation)["suggestion-p-5"]
    assert len([r for r in elements(svg, "rect") if "pale" in r.get("class")]) == 3
    assert "– n 0" in read_page(report.page(evaluation))


def test_what_survives_is_bars_at_one_epsilon_and_dots_at_several():
    charts = report.charts(make_evaluation())
    names = [name for name in charts if name.startswith("kept-")]
    assert names == ["kept-volume", "kept-distinct", "kept-clicks"]
    bars = elements(charts["kept-volume"], "rect")
    assert len(bars) == 3  # the raw log keeps everything, and is left out
    plot = BARS.end - BARS.left
    assert float(bars[0].get("width")) == pytest.approx(0.4 / 0.6 * plot, abs=0.2)
    dots = elements(report.charts(make_evaluation(epsilons=(1.0, 8.0)))["kept-volume"], "circle")
    assert [float(d.get("cx")) for d in dots] == [COLUMN.left, COLUMN.end, COLUMN.end + NONE_AT]


def test_what_survives_a_sweep_has_a_line_for_each_mechanism_and_baselines_as_dots():
    charts = report.charts(make_sweep())
    lines = elements(charts["kept-distinct"], "polyline")
    assert len(lines) == 2
    xs = [float(point.split(",")[0]) for point in lines[0].get("points").split()]
    assert xs == [COLUMN.left, (COLUMN.left + COLUMN.end) / 2, COLUMN.end]  # 1, 2, 4: logarithmic
    (dot,) = [c for c in elements(charts["kept-distinct"], "circle") if "hollow" in c.get("class")]
    assert float(dot.get("cx")) == COLUMN.end + NONE_AT
    assert "What survives at which epsilon" in read_page(report.page(make_sweep()))


def test_a_sweep_may_be_drawn_over_how_many_were_evaluated():
    name = "by-epsilon-completion-mrr"
    by_value, by_number = (report.charts(make_sweep(), x=x)[name] for x in ("value", "evaluated"))
    assert "how many were evaluated" in by_number
    assert "how many were evaluated" not in by_value
    assert [t.text for t in elements(by_number, "text") if t.text in ("10", "20", "40")] == [
        "10",
        "20",
        "40",
    ]


def test_a_sweep_of_bounds_says_what_each_keeps_and_how_much_users_have():
    text = read_page(report.page(make_sweep("per-user")))
    assert "What each bound keeps" in text
    assert "Users of this log have on average 7.25 different query items." in text
    assert not [c for c in elements(report.charts(make_sweep("per-user"))["kept-volume"], "circle")
                if "hollow" in c.get("class")]  # fmt: skip


def test_ranks_show_what_a_system_released():
    charts = report.charts(make_evaluation())
    assert "ranks-raw" not in charts
    circles = [c.get("class") for c in elements(charts["ranks-rounds"], "circle")]
    assert sorted(circles) == ["dim", "dim", "fill0"]


def test_budgets_are_drawn_where_there_are_several_tables():
    charts = report.charts(make_evaluation())
    assert [name for name in charts if name.startswith("budget-")] == ["budget-rounds"]
    texts = [t.text for t in elements(charts["budget-rounds"], "text")]
    assert texts[-8:] == ["query", "0.7", "click", "0.6", "sum", "1.3", "in one account", "1"]


def test_points_of_curves_are_told_from_measures():
    assert pictures.curve_of("query coverage@100") == ("query coverage", "j", 100.0)
    assert pictures.curve_of("click recall@1/250") == ("click recall", "frequent", 250.0)
    assert pictures.curve_of("P@5, lambda 0.3 (all)") == ("P@5 (all)", "lambda", 0.3)
    assert pictures.curve_of("nDCG@10, walk (all)") is None
    assert pictures.curve_of("P@5 (all)") is None
    assert pictures.curve_of("corrected") is None
    charts = report.charts(make_evaluation())
    assert len(elements(charts["curve-suggestion-p-5-all"], "polyline")) == 4
    assert len(elements(charts["curve-statistics-query-coverage"], "polyline")) == 4


def test_two_charts_of_one_name_are_numbered():
    same = [pictures.Picture(name="a", svg=str(n)) for n in range(3)]
    assert pictures.charts_by_name(same) == {"a": "0", "a-2": "1", "a-3": "2"}


# --- files ----------------------------------------------------------------------------------------


def test_numbers_come_as_csv():
    evaluation = make_sweep()
    rows = list(csv.DictReader(io.StringIO(report.csv(evaluation))))
    assert tuple(rows[0]) == report.COLUMNS
    assert len(rows) == len(evaluation.results) + len(evaluation.points)
    plain, varied = rows[0], rows[-1]
    assert (plain["system"], plain["measure"], plain["value"]) == ("k-query:20", SHARES[0], "0.6")
    assert (plain["low"], plain["vary"], plain["at"]) == ("", "", "")
    assert (varied["system"], varied["vary"], varied["at"]) == ("zealous", "epsilon", "4.0")
    quoted = make_evaluation(hostile=True)
    again = list(csv.DictReader(io.StringIO(report.csv(quoted))))
    assert HOSTILE in {row["system"] for row in again}


def test_a_report_has_its_numbers_and_charts_beside_it(tmp_path):
    evaluation = make_evaluation()
    report.write(evaluation, tmp_path / "r.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r-charts", "r.csv", "r.html", "r.json"]
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == report.page(evaluation)
    assert json.loads((tmp_path / "r.json").read_text())["internal"] is True
    stored = {p.stem: p.read_text(encoding="utf-8") for p in (tmp_path / "r-charts").iterdir()}
    assert stored == report.charts(evaluation)
    report.write_folder(make_sweep(), tmp_path / "sweep")
    assert sorted(p.name for p in (tmp_path / "sweep").iterdir()) == [
        "charts", "report.html", "results.csv", "results.json",
    ]  # fmt: skip


@pytest.mark.parametrize("there", ["r.html", "r.csv", "r.json", "r-charts"])
def test_nothing_that_exists_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(UsageError, match="exists: choose another name"):
        report.check_target(tmp_path / "r.html")


def test_bad_targets_are_named(tmp_path):
    with pytest.raises(UsageError, match="must be an .html file"):
        report.check_target(tmp_path / "report.pdf")
    for check in (report.check_target, report.check_folder):
        with pytest.raises(UsageError, match="there is no folder"):
            check(tmp_path / "none" / "r.html")
    with pytest.raises(UsageError, match="exists: choose another folder"):
        report.check_folder(tmp_path)


def test_the_same_evaluation_gives_the_same_page():
    assert report.page(make_evaluation()) == report.page(make_evaluation())
    assert report.charts(make_sweep()) == report.charts(make_sweep())


def test_only_its_owner_can_read_a_report(tmp_path):
    report.write(make_evaluation(), tmp_path / "r.html")
    report.write_folder(make_evaluation(), tmp_path / "folder")
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(paths) > 6
    assert {path.stat().st_mode & 0o077 for path in paths} == {0}
    assert (tmp_path / "folder").stat().st_mode & 0o077 == 0

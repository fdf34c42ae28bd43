"""The attacks of audits/attacks in small: none succeeds, and the comparison can tell when one does."""

from collections import Counter
from dataclasses import replace

import attacks.shared
import command
import pyarrow as pa
import pytest
from attacks import (
    by_names,
    by_number,
    by_waiting,
    column_case,
    csv_border,
    frame_objects,
    head_shape,
    jsonl_roles,
)
from attacks.shared import ATTACKER, Done, Finding, Pair, compared, of_others, verdict

from murmurlog.counting.items import ItemFinder
from murmurlog.logs.text_keys import KeyList
from murmurlog.mechanisms.protocol import View

NAMES = ("number", "item", "Place", "k0", "ｕｓｅｒｓ", 'a"b')


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Starting Python anew takes two seconds each time."""

    def run(arguments, folder):
        done = command.run(*arguments, cwd=folder)
        return done.returncode, done.stderr

    monkeypatch.setattr(attacks.shared, "run_command", run)


@pytest.mark.parametrize(
    ("attack", "size"),
    [
        # Long rows: the file has a border at 8 MB. tests/logs/test_records.py has borders of its own.
        pytest.param(csv_border.attack, 5_000, marks=pytest.mark.slow),
        pytest.param(head_shape.attack, 600, marks=pytest.mark.slow),
        (column_case.attack, 600),
        (jsonl_roles.attack, 600),
        (frame_objects.attack, 600),
        # The units are exact; the draws only add to it.
        pytest.param(by_number.attack, 2, marks=pytest.mark.slow),
        (by_waiting.attack, 400),
    ],
    ids=[
        *("csv_border", "head_shape", "column_case", "jsonl_roles", "frame_objects"),
        *("by_number", "by_waiting"),
    ],
)
def test_one_users_rows_change_nothing_for_the_others(attack, size, tmp_path):
    line, code = verdict(list(attack(tmp_path, size)))
    assert code == 0, line


@pytest.mark.parametrize("mechanism", ["threshold", "rounds"])
def test_a_column_of_any_name_gives_the_same_counts_or_is_refused(mechanism, tmp_path):
    settings = [by_names.plain(mechanism, tables=("query",))]
    results = list(by_names.attack(tmp_path, 2000, names=NAMES, settings=settings))
    assert [line for line, finding in results if finding.broken] == []


def test_every_mechanism_is_tried_with_hostile_names():
    assert {setting.name for setting in by_names.settings()} == set(by_names.MECHANISMS)
    assert len(set(by_names.NAMES)) == len(by_names.NAMES) >= 30


# --- the alarms ring ------------------------------------------------------------------------------


def write(path, *rows):
    path.write_text("user\tquery\n" + "".join(f"{user}\t{query}\n" for user, query in rows))
    return path


def crowd_rows(count=400):
    return [(f"u{n}", "maps") for n in range(count)]


def test_rows_that_are_lost_or_forged_are_found(tmp_path):
    without = write(tmp_path / "a.tsv", *crowd_rows())
    hostile = write(tmp_path / "b.tsv", *crowd_rows()[:-3], ("x1", "mine"), (ATTACKER, "mine"))
    finding = compared(Pair(name="rows", without=without, with_rows=hostile))
    assert finding.broken
    assert "of 400 rows of others 3 lost, 1 forged" in finding.text


def test_the_attackers_own_rows_are_no_finding(tmp_path):
    without = write(tmp_path / "a.tsv", *crowd_rows())
    hostile = write(tmp_path / "b.tsv", *crowd_rows(), *[(ATTACKER, "mine")] * 500)
    assert compared(Pair(name="rows", without=without, with_rows=hostile)).word == "HOLDS"


def test_a_refusal_counts_only_where_it_may_be(tmp_path):
    without, hostile = write(tmp_path / "a.tsv", *crowd_rows()), tmp_path / "b.tsv"
    hostile.write_text("no columns\nthat are known\n")
    for refused, word in (("neither", "BROKEN"), ("with", "REFUSED (4)"), ("both", "REFUSED (4)")):
        pair = Pair(name=refused, without=without, with_rows=hostile, refused=refused)
        assert compared(pair).word == word
    turned = Pair(name="turned", without=hostile, with_rows=without, refused="both")
    assert "only the log without the rows" in compared(turned).text


@pytest.mark.parametrize(
    ("done", "says"),
    [
        (Done(code=4, said="no", entries=1), "after it was booked"),
        (Done(code=70, said="no", entries=0), "ends with 70"),
        (Done(code=5, said="no", entries=0), "ends with 5"),
    ],
)
def test_a_failure_or_a_refusal_that_is_booked_is_a_finding(done, says, tmp_path, monkeypatch):
    log = write(tmp_path / "a.tsv", *crowd_rows())
    monkeypatch.setattr(attacks.shared, "release", lambda *_, **__: done)
    finding = compared(Pair(name="end", without=log, with_rows=log, refused="both"))
    assert finding.broken
    assert says in finding.text


def test_a_flag_that_is_not_known_is_not_taken_for_a_refusal(tmp_path):
    log = write(tmp_path / "a.tsv", *crowd_rows())
    with pytest.raises(RuntimeError, match="does not know a flag"):
        attacks.shared.release(log, "--no-such-flag", name="flag")


def test_one_form_that_succeeds_breaks_the_whole_attack():
    holds, broken = Finding(word="HOLDS", text="a"), Finding(word="BROKEN", text="b")
    assert verdict([holds, broken]) == ("BROKEN: [HOLDS] a; b", 1)
    assert verdict([holds, Finding(word="REFUSED (4)", text="c")])[1] == 0
    assert verdict([Finding(word="REFUSED (4)", text="c")]) == ("REFUSED (4): c", 0)


def test_other_counts_and_other_keys_by_a_column_are_found():
    def ended(**users):
        keys = {"query": list(users), "country": ["DE"] * len(users)}
        counts = {"users": list(users.values()), "users_stderr": [1.0] * len(users)}
        return by_names.Ended(code=0, booked=1, tables={"query": pa.table(keys | counts)})

    assert by_names.wrong(ended(maps=100), ended(maps=108)) is None
    assert "100 users" in by_names.wrong(ended(maps=100), ended(maps=140))
    assert "1 keys of 1 differ" in by_names.wrong(ended(maps=100), ended(maps=100, other=3))
    assert by_names.wrong(ended(maps=100), ended(maps=100, other=3), chance=1) is None
    for code, booked, says in ((70, 0, "70"), (5, 1, "5, and it is booked"), (4, 1, "refused (4)")):
        assert says in by_names.wrong(ended(maps=9), by_names.Ended(code=code, booked=booked))
    assert by_names.wrong(ended(maps=9), by_names.Ended(code=2, booked=0)) is None


def test_clicks_that_only_one_of_the_logs_publishes_are_found(tmp_path, monkeypatch):
    """A second implementation with another rule, which is taken if no row is very long."""
    finder, is_published = View.finder, ItemFinder.is_published

    def by_query(self, rows, query, row):
        return (self.published().places(rows.query.keys) >= 0)[query]

    def by_query_alone(self, log, **more):
        item_finder = finder(self, log, **more)
        if item_finder.published is None or log.broken:
            monkeypatch.setattr(ItemFinder, "is_published", is_published)
            return item_finder
        monkeypatch.setattr(ItemFinder, "is_published", by_query)
        queries = KeyList.of(log.text_keys.columns([self.published["query"]["query"]]))
        return replace(item_finder, published=log.partitions.share(queries))

    monkeypatch.setattr(View, "finder", by_query_alone)
    line, code = verdict(list(by_waiting.attack(tmp_path, 400)))
    assert code == 1
    assert "('common', 'FR')" in line.partition("with it")[0]


def test_the_lower_bound_on_delta_needs_both_logs():
    seen = {"users": 1, "units": 1}
    never, always = (by_number.Drawn(missing=n, **seen) for n in (0, 500))
    assert by_number.least_delta(never, always, 500) > 0.7
    assert by_number.least_delta(always, always, 500) == 0
    assert by_number.least_delta(never, never, 500) == 0


def test_rows_of_the_attacker_are_left_out_of_the_comparison():
    rows = Counter({((1, 1), (1, 1), "x", "a"): 2, ((2, 2), (2, 2), "y", ATTACKER): 1})
    assert of_others(rows, ATTACKER) == {("x", "a"): 2}

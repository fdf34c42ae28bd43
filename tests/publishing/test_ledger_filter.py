"""The budget filter of a ledger: limits fixed by the cap, amounts booked, changes of caps, earlier versions."""

import json
import math
import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from command import run

import murmurlog
from murmurlog.errors import Refused, UsageError
from murmurlog.privacy import Guarantee, Loss, limits_of, loss_of_part, mu_of_pure
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_filter import percent, percent_left
from murmurlog.publishing.ledger_statement import as_html, as_json, as_text, write_statement

GOLDEN = Path(__file__).parents[1] / "golden"
COST = Guarantee(epsilon=0.9, delta=8e-7)
CAP = {"epsilon": 3.0, "delta": 1e-5}
LIMITS = limits_of(3.0, 1e-5)


@pytest.fixture
def book(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", **CAP, pure=0)
    return book


def reserve(book, release_id, part=1 / 12, source="web", **more):
    loss = loss_of_part(LIMITS, part)
    return book.reserve(source, COST, release_id=release_id, what="x", loss=loss, **more)


def test_the_first_cap_fixes_and_stores_the_rectangle(book):
    account = book.account("web")
    assert (account.rule, account.keys_share, account.limits) == ("filter", 0.4, LIMITS)
    book.cap("known keys", epsilon=1, delta=1e-6, keys_share=0.0, pure=0.2)
    assert book.account("known keys").limits == limits_of(1, 1e-6, keys_share=0.0, pure=0.2)
    with closing(sqlite3.connect(book.path)) as db:  # stored, and sealed with the cap
        db.execute("DROP TRIGGER cap_history_keeps_update")
        db.execute("UPDATE cap_history SET mu2 = 2 * mu2")
        db.commit()
    with pytest.raises(Refused, match="damaged, or another program changed it"):
        book.account("web")


def test_twelve_twelfths_fit_though_their_epsilons_add_up_to_more(book):
    for month in range(12):
        before = reserve(book, str(month), distance=2.7e-17)
        assert before.releases == month
    account = book.account("web")
    assert sum(entry.epsilon for entry in book.entries()) > 10
    assert account.booked == pytest.approx((*LIMITS[:2], 12 * 2.7e-17, 0), rel=1e-8)
    with pytest.raises(Refused, match=r"needs 8.4 % of the noise budget \(0 % is left\)"):
        reserve(book, "more")
    assert len(book.entries()) == 12


def test_a_refusal_names_what_is_short_and_what_would_fit(book):
    reserve(book, "one", 0.75)
    with pytest.raises(
        Refused, match=r"needs 50 % .*\(25 % is left\).*\n.*Try --of-cap 0.25, or raise"
    ):
        reserve(book, "two", 0.5)
    with pytest.raises(
        Refused, match=r"needs 101 % of the chance that keys show \(25 % is left\) on"
    ):
        book.check("web", COST, loss=Loss(mu=1e-3, keys=4.01e-6))
    with pytest.raises(Refused, match=r"sampler may have .*\n.*\n.*first cap of a smaller epsilon"):
        book.check("web", COST, loss=Loss(mu=1e-3, keys=0), distance=1e-9)
    book.check("web", COST, loss=loss_of_part(LIMITS, 0.25))


def test_what_failed_counts_for_ever(book):
    reserve(book, "failed", 0.5)
    reserve(book, "published", 0.5)
    book.commit("published")
    book.reopen("published")
    with pytest.raises(Refused, match="0 % is left"):
        reserve(book, "again", 0.01)


def test_eight_at_once_cannot_exceed_the_rectangle(book):
    def one(n):
        try:
            reserve(Ledger(book.path), str(n), 1 / 3)
        except Refused:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(8))) == 3
    assert book.account("web").booked.mu2 <= LIMITS.mu2 * (1 + 1e-9)


def test_without_a_loss_anything_with_this_epsilon_and_delta_is_booked(book):
    book.reserve("web", Guarantee(epsilon=0.2, delta=1e-6), release_id="plain", what="x")
    assert book.find("plain").amounts == pytest.approx((mu_of_pure(0.2) ** 2, 1e-6, 0, 0), rel=2e-9)
    pdp = Guarantee(epsilon=0.2, delta=1e-2, notion="pdp", delta_dp=1e-7)
    book.reserve("web", pdp, release_id="pdp", what="x")
    assert book.find("pdp").keys == pytest.approx(1e-7, rel=2e-9)
    with pytest.raises(Refused, match="no guarantee"):
        book.reserve("web", Guarantee.nothing(), release_id="none", what="x")


def test_a_part_of_epsilon_that_is_kept_for_pure_releases_is_booked_as_such(book):
    book.cap("pure", **CAP, pure=1.0)
    for name in ("one", "two"):
        book.reserve("pure", Guarantee(epsilon=0.5, delta=0), release_id=name, what="x")
    assert book.account("pure").booked == (0.0, 0.0, 0.0, 1.0)
    with pytest.raises(Refused, match=r"of the epsilon for pure releases \(0 % is left\)"):
        book.reserve("pure", Guarantee(epsilon=0.4, delta=0), release_id="three", what="x")
    assert "100 % of the epsilon for pure releases" in as_text(book.contents(), "l")


def test_units_and_neighbours_do_not_mix(book):
    reserve(book, "one")
    for other in ({"unit": "user-day"}, {"neighbours": "replace"}):
        with pytest.raises(Refused, match="does not add to that"):
            book.check("web", Guarantee(epsilon=0.1, delta=1e-9, **other))


# --- changes of caps -----------------------------------------------------------------------------------


def test_the_share_of_keys_is_fixed_for_good(book):
    with pytest.raises(Refused, match=r"keeps the share 0.4 .*leave --keys-share out"):
        book.cap("web", epsilon=4, delta=1e-4, keys_share=0.5, reason="more")
    assert book.cap("web", epsilon=4, delta=1e-4, keys_share=0.4, reason="more").changed


def test_a_raised_cap_keeps_the_sampler_s_distance_and_contains_the_first(book):
    change = book.cap("web", epsilon=4, delta=1e-5, reason="more")
    assert change.limits == limits_of(4, 1e-5, distance=LIMITS.distance)
    assert change.limits.mu2 > LIMITS.mu2
    assert not book.cap("web", epsilon=4, delta=1e-5).changed
    assert book.account("web").largest_cap.epsilon == 4


def test_a_cap_that_allows_more_of_one_and_less_of_another_is_refused(book):
    with pytest.raises(Refused, match="more of one amount and less of another"):
        book.cap("web", epsilon=4, delta=1e-6, reason="x")
    with pytest.raises(Refused, match="more of one amount and less of another"):
        book.cap("web", **CAP, pure=0.5)


def test_a_lowered_cap_refuses_more_and_a_raised_one_is_compared_with_all_earlier_ones(book):
    book.cap("web", epsilon=1, delta=1e-6)
    with pytest.raises(Refused):
        reserve(book, "one", 0.5)
    # It contains the cap in force, and not the first one.
    with pytest.raises(Refused, match="less of another than an earlier cap"):
        book.cap("web", epsilon=3.5, delta=2e-6, reason="x")
    book.cap("web", epsilon=2, delta=1e-6, reason="within the first")
    assert book.account("web").largest_cap.epsilon == 3
    book.cap("web", **CAP, reason="as before")
    assert book.account("web").limits == LIMITS


# --- sources of earlier versions -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("golden", "source", "spent"),
    [
        ("ledger-1.db", "search-2025", r"epsilon 1.8, delta 3e-06\n  of a cap of epsilon 3, .* 3 rel"),
        ("ledger-1.db", "caf\u00e9 logs", r"epsilon 1, delta 1e-07\n  without a cap"),
        ("ledger-2.db", "search-2026", r"epsilon 1, delta 3e-06\n"),
        ("ledger-2.db", "no cap", r"epsilon 1, delta 0\n  without a cap is spent, by 1 release\."),
        ("ledger-2.db", "unused", r"epsilon 0, delta 0\n  of a cap of epsilon 1, .* by 0 releases"),
        ("ledger-3.db", "shop", r"epsilon 0.5, delta 1e-07\n  of a cap of epsilon 2, delta 1e-06"),
        ("ledger-4.db", "shop", r"epsilon 1, delta 1e-07\n"),
        ("ledger-5.db", "mail", r"epsilon 0.1, delta 1e-07\n"),
        ("ledger-6.db", "sums", r"epsilon 2, delta 2e-06\n"),
    ],
)  # fmt: skip
def test_a_source_under_sums_is_refused_by_name_and_with_what_it_has_spent(
    golden, source, spent, tmp_path
):
    old = Ledger(Path(shutil.copyfile(GOLDEN / golden, tmp_path / "ledger.db")))
    file = old.path.read_bytes()
    words = re.compile(
        rf'source "{source}" of ledger.db is under the rule sum.*{spent}.*murmurlog 0\.2\.0 is the last .*'
        r"ledger convert .* --to filter --ledger ledger.db",
        re.DOTALL,
    )
    for use in (
        lambda: old.check(source, COST, new_source=True),
        lambda: old.reserve(source, COST, release_id="new", what="x", new_source=True),
        lambda: old.cap(source, **CAP, reason="more"),
        lambda: old.account(source),
        lambda: old.find_account(source),
        lambda: write_statement(old, source, out=tmp_path / "s.html"),
    ):
        with pytest.raises(Refused, match=words) as refused:
            use()
        assert refused.value.exit_code == 3
    assert old.path.read_bytes() == file
    shown = {each["name"]: each for each in as_json(old.contents())["sources"]}[source]
    assert (shown["rule"], shown["rectangle"], shown["spent"], shown["left"]) == (
        "sum",
        None,
        None,
        None,
    )
    assert shown["spent_by_sum"]["epsilon"] == sum(e.epsilon for e in old.entries(source))
    assert "refused   under the rule sum, which this version does not" in as_text(
        old.contents(), "l"
    )


@pytest.mark.parametrize("golden", ["ledger-3.db", "ledger-4.db", "ledger-5.db", "ledger-6.db"])
def test_other_sources_of_the_same_file_go_on(golden, tmp_path):
    book = Ledger(Path(shutil.copyfile(GOLDEN / golden, tmp_path / "ledger.db")))
    source = "search" if golden == "ledger-6.db" else "search-2026"
    before = book.account(source)
    assert before.limits == LIMITS
    columns = {"user": "user"} if golden == "ledger-6.db" else {}
    reserve(book, "new", source=source, columns=columns)
    assert book.account(source).releases == before.releases + 1
    shown = {each["name"]: each["rule"] for each in as_json(book.contents())["sources"]}
    assert (shown[source], "sum" in shown.values()) == ("filter", True)


def test_a_source_that_an_earlier_version_converted_keeps_its_remainder(tmp_path):
    book = Ledger(Path(shutil.copyfile(GOLDEN / "ledger-6.db", tmp_path / "ledger.db")))
    account = book.account("converted")
    assert account.limits == pytest.approx(limits_of(2, 9e-6), rel=1e-12)
    assert (account.epsilon_by_sum, account.delta_by_sum) == (1, 1e-6)
    assert account.booked.mu2 == pytest.approx(0.25 * account.limits.mu2)
    raised = book.cap("converted", epsilon=4, delta=1e-5, reason="more")
    assert raised.limits == pytest.approx(
        limits_of(3, 9e-6, distance=account.limits.distance), rel=1e-12
    )
    with pytest.raises(
        UsageError, match="were spent before its filter began: a cap must be larger"
    ):
        book.cap("converted", epsilon=0.5, delta=1e-5)
    text = as_text(book.contents(), "l")
    assert "by sums   epsilon 1, delta 1e-06, by 1 release before the filter" in text
    assert "(keys 0.4, pure 0) instead of epsilon 3, delta 1e-05, rule sum, by Jane Doe" in text
    page = as_html(book.contents(), "converted", ledger="l.db", day="2026-11-18")
    assert "epsilon 1, delta 1e-06, by 1 release before the filter" in page


# --- the pure part of a default cap ---------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["korolova", "zealous", "pool"])
def test_a_default_cap_of_3_books_a_pure_release_of_1_and_rounds_beside_it(
    mechanism, tmp_path, write_tsv
):
    users = [{"user": f"u{n}", "query": ("weather", "news")[n % 2]} for n in range(300)]
    log, ledger = str(write_tsv(users)), tmp_path / "ledger.db"
    Ledger(ledger).cap("web", epsilon=3, delta=1e-5)
    (tmp_path / "pool.txt").write_text("weather\nnews\nsport\n")
    options = {"pool": str(tmp_path / "pool.txt")} if mechanism == "pool" else {}
    booked = {"tables": ["query"], "ledger": ledger, "source_name": "web"}
    murmurlog.release(
        log, out=tmp_path / "a", mechanism=mechanism, epsilon=1, delta=1e-6, **booked, **options
    )
    spent = Ledger(ledger).account("web").booked
    assert spent.mu2 == 0
    assert 0.9 < spent.pure <= 1
    for number in range(4):
        murmurlog.release(log, out=tmp_path / f"b{number}", epsilon=1, delta=1e-6, **booked)
    with pytest.raises(Refused, match="of the noise budget"):
        murmurlog.release(log, out=tmp_path / "c", epsilon=1, delta=1e-6, **booked)
    for bundle in ("a", "b0", "b3"):
        assert murmurlog.verify(tmp_path / bundle, ledger=ledger).ok


def test_a_release_is_booked_by_the_amount_of_which_it_takes_the_smaller_share(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", **CAP)
    book.reserve("web", Guarantee(epsilon=0.1, delta=0), release_id="small", what="x")
    assert book.find("small").amounts == pytest.approx((mu_of_pure(0.1) ** 2, 0, 0, 0), rel=2e-9)
    one_draw = Loss(
        keys=1e-7, draws=((2.0, 1),)
    )  # threshold with geometric noise and one item a user
    book.reserve("web", COST, release_id="draw", what="x", loss=one_draw)
    assert book.find("draw").amounts == pytest.approx((0, 1e-7, 0, 0.5), rel=2e-9)
    many_draws = Loss(keys=0, draws=((100.0, 50),))
    book.reserve("web", COST, release_id="draws", what="x", loss=many_draws)
    assert book.find("draws").pure == 0


def test_a_third_of_epsilon_is_pure_unless_the_owner_says_otherwise(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.cap("web", **CAP)
    assert book.account("web").limits == limits_of(**CAP, pure=1.0)
    lowered = book.cap("web", epsilon=0.6, delta=1e-5)
    assert lowered.pure == pytest.approx(0.2)
    book.cap("web", **CAP, reason="as before")
    assert book.account("web").limits == limits_of(**CAP, pure=1.0)
    raised = book.cap("web", epsilon=6, delta=1e-5, reason="more")
    assert raised.pure == 1.0
    raised = book.cap("web", epsilon=9, delta=1e-5, pure=2, reason="more pure releases")
    assert raised.pure == 2


def test_a_cap_above_20_says_why_it_cannot_be_kept(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    with pytest.raises(
        UsageError, match=r"epsilon 21 is above 20, the most .*\n.*sampler.*\n.*20 or less"
    ):
        book.cap("web", epsilon=21, delta=1e-5)
    book.cap("web", epsilon=20, delta=1e-5)


# --- words and JSON -----------------------------------------------------------------------------------


def test_the_json_has_the_rectangle_and_no_sum_of_epsilons(book):
    reserve(book, "one", 0.25)
    (web,) = as_json(book.contents())["sources"]
    assert web["rule"] == "filter"
    assert web["cap"] == {"epsilon": 3.0, "delta": 1e-5}
    assert web["rectangle"] == LIMITS._asdict()
    assert web["spent"]["mu2"] == pytest.approx(0.25 * LIMITS.mu2)
    assert web["left"]["keys"] == pytest.approx(0.75 * LIMITS.keys)
    assert web["releases_like_the_last"] == 3
    assert web["entries"][0]["mu2"] == pytest.approx(0.25 * LIMITS.mu2)
    assert web["cap_history"][0]["mu2"] == LIMITS.mu2


def test_the_text_says_what_is_left_for_planning(book):
    reserve(book, "one", 0.25)
    text = as_text(book.contents(), "l")
    assert (
        "spent     25 % of the noise budget and 25 % of the chance that keys show, by 1 rel" in text
    )
    assert (
        "left      75 % of the noise budget and 75 % of the chance that keys show; 3 more releases like"
        in text
    )
    assert "epsilon 0.9, delta 8e-07  one" in text  # what it costs alone
    reserve(book, "two", 0.5)
    reserve(book, "three", 0.125)
    assert "; 1 more release like the last fits" in as_text(book.contents(), "l")


def test_the_page_states_the_largest_cap_and_never_what_was_spent_so_far(book):
    reserve(book, "one", 0.25)
    book.cap("web", epsilon=2, delta=1e-5)
    page = as_html(book.contents(), "web", ledger="l.db", day="2026-11-16")
    assert "by a factor of at most 20.1, which is e to the epsilon of the cap" in page
    assert "1 in 100,000" in page
    assert "epsilon spent" not in page
    assert "do not add up here" in page
    assert "less is not promised before the cap is spent" in page


@pytest.mark.parametrize(
    ("some", "most", "spent", "left"),
    [
        (1, 3, "34 %", "66 %"), (0.25, 1, "25 %", "75 %"), (1 - 1e-9, 1, "100 %", "0 %"),
        (0.001234, 1, "0.13 %", "99 %"), (0.0123, 1, "1.3 %", "98 %"), (0, 1, "0 %", "100 %"),
        (1, 0, "more than all", "nothing"), (2, 1, "200 %", "0 %"),
    ],
)  # fmt: skip
def test_percentages_never_flatter(some, most, spent, left):
    assert percent(some, most) == spent
    assert percent_left(some, most) == left
    assert not math.isnan(some)


def test_the_commands_of_a_budget_filter(tmp_path):
    rows = "".join(f"u{i},weather\n" for i in range(400))
    (tmp_path / "log.csv").write_text("user,query\n" + rows)

    def told(*arguments, code=0):
        done = run(*arguments, "--ledger", "l.db", cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done

    cap = ("ledger", "cap", "web", "--epsilon", "3", "--delta", "1e-5")
    made = told(*cap, "--keys-share", "0.3", "--pure", "0.5", "--json")
    assert "in all, of it epsilon 0.5 by pure releases" in made.stderr
    stated = json.loads(made.stdout)
    assert (stated["rule"], stated["keys_share"], stated["pure"]) == ("filter", 0.3, 0.5)
    release = ("release", "log.csv", "--tables", "query", "--source", "web")
    done = told(*release, "--of-cap", "1/2", "--out", "b")
    assert (
        "booked: 50 % of the noise budget, 50 % of the chance that keys show and 0 % of"
        in done.stderr
    )
    assert "is no part of a whole: write 1/12 or 0.08" in told(
        *release, "--of-cap", "3/2", "--out", "c", code=2
    ).stderr  # fmt: skip
    raised = told("ledger", "cap", "web", "--epsilon", "4", "--delta", "1e-5", "--reason", "x")
    assert "warning: if this cap was raised because of what a release showed" in raised.stderr
    lowered = told("ledger", "cap", "web", "--epsilon", "1", "--delta", "1e-7")
    assert "warning: more than this cap allows is spent already" in lowered.stderr
    shown = {
        each["name"]: each
        for each in json.loads(told("ledger", "show", "--json").stdout)["sources"]
    }
    assert shown["web"]["rectangle"]["pure"] == 0.125
    assert "left      " in told("ledger", "show").stdout
    told("ledger", "statement", "web", "--out", "web.html")
    assert "mu2,keys,distance,pure" in told("ledger", "export").stdout

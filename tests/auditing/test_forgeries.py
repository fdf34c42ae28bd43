"""Bundles that are consistent in themselves and claim what their mechanism cannot have made."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_bundles import seal
from quick_cases import sample_cases

import murmurlog
from murmurlog.bundle.certificate import TableClaim
from murmurlog.bundle.files import sums
from murmurlog.bundle.read import read_certificate
from murmurlog.bundle.schema import count_of, schema
from murmurlog.bundle.write import make_cards, publish
from murmurlog.errors import BundleError, Refused, UsageError
from murmurlog.mechanisms import parse
from murmurlog.mechanisms.left_out import BINS
from murmurlog.privacy import compose, noise_sd
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.plan import PROBABILITIES, drawn_with


@pytest.fixture(params=["own", "another"])
def honest(request, write_tsv, tmp_path):
    """The certificate of a bundle of this version, and of another one."""
    rows = [
        {"user": f"u{i}", "time": "2026-01-01 00:00:00", "query": "weather", "url": "example.org"}
        for i in range(200)
    ]
    out = tmp_path / "honest"
    murmurlog.release(str(write_tsv(rows)), out=out, tables=["query"], epsilon=4, users=10_000)
    assert murmurlog.verify(out).ok
    certificate = read_certificate(out)
    return certificate if request.param == "own" else replace(certificate, murmurlog="0.0.9")


def make_table(kind, *keys, users=500):
    columns = schema(kind).names
    rows = [dict(zip(columns, [*key, users, 2.0, True], strict=True)) for key in keys]
    return pa.Table.from_pylist(rows, schema=schema(kind))


def rows_of(*rows, parameters=None):
    wanted = schema("log", parameters=parameters)
    return pa.Table.from_pylist([dict(zip(wanted.names, row, strict=True)) for row in rows], wanted)


def forge(honest, out, tables, *, epsilon=3.0, **changes):
    """A bundle with these (mechanism text, table) by name, everything else as it should be."""
    claims = {}
    for name, (text, table) in tables.items():
        made = parse(text)
        passes = {str(p): n for p in PROBABILITIES if (n := made.passes(p)) is not None}
        claims[name] = TableClaim(
            rows=table.num_rows,
            mechanism=text,
            guarantee=made.guarantee(epsilon=epsilon),
            count=count_of(table),
            parameters=made.parameters(),
            passes=changes.pop("passes", passes),
            notes=changes.pop("notes", {}),
        )
    total = compose([claim.guarantee for claim in claims.values()])
    delta = drawn_with([parse(text) for text, _ in tables.values()], total)
    changes = {"sampler": {**honest.sampler, "delta": delta}} | changes
    made = replace(honest, tables=claims, guarantee=total, **changes)
    publish(out, tables={name: table for name, (_, table) in tables.items()}, certificate=made)
    try:
        return " ".join(check.message for check in murmurlog.verify(out).checks if not check.ok)
    except BundleError as error:  # the certificate breaks its schema
        return str(error)


THRESHOLD = "threshold(noise=geometric, d=1, scale=1.0, T=20)"
QUERY = make_table("query", ["weather"])
SYNTHETIC = "synthetic(noise=geometric, d=1, scale=1.0, T=20, b_sizes=10.0)"


def test_the_forger_can_make_an_honest_bundle(honest, tmp_path):
    assert forge(honest, tmp_path / "out", {"query": (THRESHOLD, QUERY)}) == ""


@pytest.mark.parametrize(
    ("tables", "message"),
    sample_cases([
        ({"query": ("left-out(d=3, sigma=5.0)", QUERY)}, "makes no"),
        (
            {"query": ("sessions(l_s=1, l_q=2, subsequences=all, noise=geometric, scale=1.0, T=20)",
                       QUERY)},
            "makes no such table",
        ),
        ({"log": (THRESHOLD, rows_of(("invented-1", "a", "b", 1)))}, "makes no such table"),
        (
            {"query": ("pool(d=1, b=1.0, N=1, T=5)", make_table("query", ["a"], ["b"]))},
            "has 2 rows of a pool of 1",
        ),
        ({"query": ("zealous-keywords(d=1, b=1.0, fakes=10.0)", QUERY)}, "no keyword table"),
        (
            {
                "keyword": (THRESHOLD, make_table("keyword", ["rain"])),
                "query": ("zealous-keywords(d=1, b=1.0, fakes=10.0)", QUERY),
            },
            "not made of published keywords",
        ),
        (
            {"session": ("label-paths(l_s=1, l_q=2, subsequences=all, b=1.0, L=1, T=5)",
                         make_table("session", [["a", "b"]]))},
            "holds 2 labels of 1",
        ),
        (
            {"session": ("sessions(l_s=1, l_q=2, subsequences=all, noise=geometric, scale=1.0, T=20)",
                         make_table("session", [["a", "b", "c"]]))},
            "has not 2 to 2 queries",
        ),
        (
            {"log": (SYNTHETIC,
                     rows_of(("u0001", "a", "b", 1)))},
            "name was not invented",
        ),
        (
            {"log": (SYNTHETIC,
                     rows_of(("invented-1", "a", "b", 7)))},
            "count outside 1 to 1",
        ),
        (
            {"log": (SYNTHETIC,
                     rows_of(("invented-1", "a", "b", 1), ("invented-1", "c", "d", 1)))},
            "more than 1 rows",
        ),
    ], every=2),
)  # fmt: skip
def test_what_a_mechanism_cannot_make_is_caught(honest, tmp_path, tables, message):
    assert message in forge(honest, tmp_path / "out", tables)


def test_a_set_of_more_queries_than_stated_is_caught(honest, tmp_path):
    pairs = {"itemset": (THRESHOLD, make_table("itemset", [["a"]], [["a", "b"]]))}
    for size, message in ((2, ""), (1, "a set of more than 1 queries"), (None, "states no size")):
        text = {**honest.text, "set_size": size, "consecutive": False}
        actual = forge(honest, tmp_path / str(size), pairs, text=text)
        assert message in actual if message else actual == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threshold(noise=geometric, d=1, scale=1.0, T=20, )", "is not the canonical text of"),
        ("threshold(d=1, scale=1.0, T=20)", "is not the canonical text of"),
        ("zealous(d=1, m=2, lam=2.0, tau=1, T=40)", "is not the canonical text of"),
    ],
)
def test_a_text_that_says_more_or_less_is_caught(honest, tmp_path, text, message):
    assert message in forge(honest, tmp_path / "out", {"query": (text, QUERY)})


def test_remarks_and_passes_are_not_believed(honest, tmp_path):
    tables = {"query": (THRESHOLD, QUERY)}
    for number, notes in enumerate(({"per person": 0.001}, {"invented users": "u7 asked x"})):
        assert "`notes` holds" in forge(honest, tmp_path / f"n{number}", tables, notes=notes)
    assert "`passes` is not" in forge(honest, tmp_path / "p", tables, passes={"0.5": 1})


def test_probabilistic_privacy_for_fewer_users_than_declared_is_caught(honest, tmp_path):
    text = "zealous(m=1, lam=1.0, tau=3, T=40, users=10)"
    for declared in (None, 11):
        out = tmp_path / f"out{declared}"
        message = forge(honest, out, {"query": (text, QUERY)}, declared_users=declared)
        assert "fewer users than are declared" in message
    assert forge(honest, tmp_path / "ok", {"query": (text, QUERY)}, declared_users=10) == ""


def test_a_stated_number_below_what_is_proved_is_caught(honest, tmp_path):
    """Each number of the release, and of a table, made a little smaller by itself."""
    plain = {
        "query": (THRESHOLD, QUERY),
        "pair": (THRESHOLD, make_table("pair", ["weather", "maps"])),
    }
    zealous = "zealous(m=1, lam=1.0, tau=3, T=40, users=10)"
    lists = {"query": (zealous, QUERY), "pair": (zealous, make_table("pair", ["weather", "maps"]))}
    for kind, tables in {"dp": plain, "pdp": lists}.items():
        out = tmp_path / kind
        assert forge(honest, out, tables, epsilon=1.001, declared_users=10) == ""
        certificate, rows = read_certificate(out), murmurlog.load(out).tables
        names = ["epsilon", "delta", *(["delta_dp"] if kind == "pdp" else [])]
        for number, name in enumerate(names):
            lower = {name: getattr(certificate.guarantee, name) * 0.99}
            claim = certificate.tables["pair"]
            smaller = replace(claim.guarantee, **{name: getattr(claim.guarantee, name) * 0.99})
            claims = {**certificate.tables, "pair": replace(claim, guarantee=smaller)}
            for place, forged in (
                ("total", {"guarantee": replace(certificate.guarantee, **lower)}),
                ("table", {"tables": claims}),
            ):
                target = tmp_path / f"{kind} {number} {place}"
                publish(target, tables=rows, certificate=replace(certificate, **forged))
                failed = [check.name for check in murmurlog.verify(target).checks if not check.ok]
                assert "guarantee" in failed, (kind, name, place)


@pytest.mark.parametrize(
    "text",
    [
        "pool(d=1, b=1.0, N=" + "9" * 5000 + ", T=5)",
        "pool(d=1, b=1.0, N=100, T=1e300)",
        "pool(d=1, b=1e30, N=100, T=5)",
        "threshold(noise=geometric, d=999999999, scale=1.0, T=20)",
        "threshold(noise=geometric, d=1, scale=1e-300, T=20)",
        "threshold(noise=geometric, d=inf, scale=1.0, T=20)",
        "zealous(m=1000000000, lam=1.0, tau=1, T=40)",
        "sessions(l_s=1000000000, l_q=12, subsequences=all, noise=geometric, scale=1.0, T=20)",
        "label-paths(l_s=1, l_q=12, subsequences=all, b=1.0, L=1e100, T=5)",
        "k-query:99999999999999999999999",
    ],
)
def test_numbers_out_of_all_proportion_are_refused_at_once(text):
    with pytest.raises((UsageError, Refused)):
        parse(text).guarantee(epsilon=1.0)


# --- claims that flags could have made ------------------------------------------------------------


@pytest.fixture
def log(write_tsv):
    rows = [{"user": f"u{i}", "time": "2026-01-01 00:00:00", "query": "x"} for i in range(9)]
    return str(write_tsv(rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mechanism": "zealous(m=2, lam=4.0, tau=4, T=80, users=10)", "users": 1000},
            "for its own number of users",
        ),
        ({"mechanism": "zealous(m=2, lam=4.0, tau=4, T=80, users=10)"}, "declare the same"),
        (
            {"mechanism": "zealous(m=2, lam=4.0, tau=4, T=80, users=10)", "users": 10,
             "set_only": True},
            "does not survive dropping",
        ),
        ({"mechanism": "threshold(d=1, scale=1.0, T=20)", "noise": "gaussian"}, "leave --noise out"),
        (
            {"mechanism": "zealous(m=2, lam=4.0, tau=4, T=80)", "notion": "pdp", "users": 9},
            "leave --notion out",
        ),
        ({"mechanism": "zealous", "via_keywords": True, "tables": ["keyword", "query"],
          "by": ("country", ["DE"])}, "do not go together|is not in log.tsv"),
        ({"mechanism": "zealous", "epsilon": 1e-14}, "scale of noise"),
        ({"mechanism": "pool", "epsilon": 1e-14}, "scale of noise|needs a public pool"),
        ({"gap": float("nan"), "tables": ["pair"]}, "--gap must be a finite number"),
        ({"per_user": 0}, "at least 1"),
        ({"tables": ["query", "click"], "mechanism": {"query": "rounds", "click": "korolova"},
          "count": "rows", "bound": "random"}, "needs --bound first"),
        *(
            (
                {"tables": ["query", table], "mechanism": "sessions", "by": ("query", ["x"])},
                f"--by does not go with a {table}",
            )
            for table in ("session", "left_out", "itemset")
        ),
    ],
)  # fmt: skip
def test_nothing_is_booked_for_what_cannot_be_claimed(log, tmp_path, options, message):
    ledger = tmp_path / "ledger.db"
    keywords = {"tables": ["query"], "ledger": ledger, "source_name": "s", "new_source": True}
    with pytest.raises((UsageError, murmurlog.errors.InputError), match=message):
        murmurlog.release(log, out=tmp_path / "out", **(keywords | options))
    assert not (tmp_path / "out").exists()
    assert not ledger.exists()


def test_a_delta_that_only_the_sampler_costs_is_still_held_to(log, tmp_path):
    pool = tmp_path / "pool.txt"
    pool.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot certify delta"):
        murmurlog.release(
            log, out=tmp_path / "out", tables=["query"], mechanism="pool", pool=pool, epsilon=45
        )


ROUNDS = "rounds(d=100, s=9.1_8.2, own=100_200, past=90, T=2000000000_9000000000, C=3.0, reach=1.3, focus=0.3)"


def test_counts_that_no_mechanism_drew_are_caught(honest, tmp_path):
    """Exact counts beside keys, or counts with errors smaller than the noise had."""
    query = make_table("query", ("weather",))
    keys = query.select(["query"])
    rows = query.rename_columns(["query", "rows", "rows_stderr", "reliable"])
    bare, fresh = (
        str(parse(text)) for text in (ROUNDS, ROUNDS[:-1] + ", sigma1=40.0, sigma_h=40.0)")
    )
    korolova = "korolova(d=1, b=1.0, T=40, count=users)"
    threshold = "threshold(noise=gaussian, d=1, scale=9.0, T=80)"
    for n, (text, table, message) in enumerate(
        [
            (bare, query, "counts users"),
            (fresh, query, "smaller errors than its noise"),
            (korolova, query, "counts users"),
            (threshold, query, "smaller errors than its noise"),
            (threshold, rows, "counts rows"),
        ]
    ):
        assert message in forge(honest, tmp_path / str(n), {"query": (text, table)}, epsilon=5.0)
    assert not forge(honest, tmp_path / "keys", {"query": (bare, keys)}, epsilon=5.0)


def test_a_certificate_that_promises_nothing_or_contradicts_itself_fails(honest, tmp_path):
    query = make_table("query", ("weather",))
    threshold = "threshold(noise=gaussian, d=1, scale=1.0, T=8)"
    sampler = {**honest.sampler, "entropy": "known seed"}
    for n, (changes, message) in enumerate(
        [({"sampler": sampler}, "contradict each other"), ({"bound": "rows"}, "is unknown")]
    ):
        actual = forge(honest, tmp_path / str(n), {"query": (threshold, query)}, **changes)
        assert message in actual
    nothing = "threshold(noise=gaussian, d=100000, scale=0.0001, T=2)"
    assert "promises nothing" in forge(honest, tmp_path / "n", {"query": (nothing, query)})


def test_absurd_mechanisms_are_not_composed_for_ever(honest, tmp_path):
    """A narrow Gaussian beside geometric noise: delta is 1, and no distribution is built."""
    query, pair = make_table("query", ("weather",)), make_table("pair", ("weather", "maps"))
    tables = {
        "query": ("threshold(noise=gaussian, d=1, scale=0.0125, T=40)", query),
        "pair": ("threshold(noise=geometric, d=9, scale=1.0, T=90)", pair),
    }
    assert forge(honest, tmp_path / "b", tables, epsilon=3.0)


def test_what_is_left_out_waits_for_queries_that_wait_for_keywords(log, tmp_path):
    murmurlog.release(
        log, out=tmp_path / "out", tables=["keyword", "left_out", "query"], mechanism="zealous",
        via_keywords=True, epsilon=8,
    )  # fmt: skip
    assert murmurlog.verify(tmp_path / "out").ok


def test_a_pool_of_another_size_is_refused_before_anything_is_booked(log, tmp_path):
    pool = tmp_path / "pool.tsv"
    pool.write_text("".join(f"q{n}\texample.org\n" for n in range(20)), encoding="utf-8")
    book = Ledger(tmp_path / "l.db")
    book.cap("s", epsilon=20, delta=1e-3)
    with pytest.raises(UsageError, match="a pool of N=7 keys; it has 20"):
        murmurlog.release(
            log, out=tmp_path / "out", tables=["query", "click"], pool=pool, epsilon=2,
            mechanism={"query": "threshold(d=1, scale=1.0, T=20)",
                       "click": "pool(d=5, b=5.0, N=7, T=20)"},
            ledger=book.path, source_name="s",
        )  # fmt: skip
    assert book.entries() == []


def test_what_the_guarantee_is_conditional_on_is_in_the_cards(log, tmp_path):
    murmurlog.release(
        log, out=tmp_path / "out", tables=["query"], epsilon=2, unprotected=["per-user 7"]
    )
    assert murmurlog.verify(tmp_path / "out").ok
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "conditional on: per-user 7" in card


# --- output that the mechanism cannot have given --------------------------------------------------

LISTS = "korolova-lists(d=1, b_c=1.0)"
PATHS = "label-paths(l_s=1, l_q=2, subsequences=all, b=1.0, L=2, T=5)"
KEYWORDS = {"keyword": (THRESHOLD, make_table("keyword", ["weather"]))}


@pytest.mark.parametrize(
    ("kind", "text", "keys", "before"),
    sample_cases(
        [
            ("query", "zealous(m=1, lam=1.0, tau=1, T=20)", ["weather"], {}),
            ("query", "pool(d=1, b=1.0, N=10, T=5)", ["weather"], {}),
            ("click", LISTS, ["weather", "a.com"], {}),
            ("session", PATHS, [["a", "b"]], {}),
            ("query", "zealous-keywords(d=1, b=1.0, fakes=1.0)", ["weather"], KEYWORDS),
        ],
        every=2,
    ),
)
def test_counts_of_rows_and_errors_below_the_noise_are_caught(
    honest, tmp_path, kind, text, keys, before
):
    table = make_table(kind, keys)
    stderr = table.schema.get_field_index("users_stderr")
    small = table.set_column(stderr, "users_stderr", pa.array([1e-9]))
    rows = table.rename_columns([name.replace("users", "rows") for name in table.column_names])
    for n, (forged, message) in enumerate(
        [(rows, "counts rows"), (small, "smaller errors than its noise")]
    ):
        assert message in forge(honest, tmp_path / str(n), {**before, kind: (text, forged)})
    assert "noise" not in forge(honest, tmp_path / "ok", {**before, kind: (text, table)})


def test_counts_below_what_published_keywords_allow_are_caught(honest, tmp_path):
    text = "zealous-keywords(d=1, b=9.0, fakes=0.001)"
    low = make_table("query", ["weather"], users=3)
    low = low.set_column(2, "users_stderr", pa.array([20.0]))
    low = low.set_column(3, "reliable", pa.array([False]))
    assert "holds a count of 3, below" in forge(
        honest, tmp_path / "out", {**KEYWORDS, "query": (text, low)}
    )


def test_probabilistic_privacy_without_its_counts_is_caught(honest, tmp_path):
    text = "zealous(m=1, lam=1.0, tau=3, T=40, users=10)"
    keys = {"query": (text, QUERY.select(["query"]))}
    assert "has no counts" in forge(honest, tmp_path / "out", keys, declared_users=10)


def left_out_table(rows=1000):
    wanted = schema("left_out", count="rows")
    sd = noise_sd(noise="gaussian", scale=40.0)
    lines = [dict(zip(wanted.names, [*key, rows, sd, True], strict=True)) for key in BINS]
    return pa.Table.from_pylist(lines, schema=wanted)


def test_what_is_left_out_needs_the_queries_and_says_what_its_table_says(honest, tmp_path):
    left = {"left_out": ("left-out(d=1, sigma=40.0)", left_out_table())}
    both = {**left, "query": (THRESHOLD, QUERY)}
    assert "no query table" in forge(honest, tmp_path / "alone", left, notes={})
    n = len(BINS) // 3
    right = {
        "searches left out, %": 50,
        "queries left out": 1000 * n,
        "queries left out, 95 % interval, plus or minus": round(
            2 * noise_sd(noise="gaussian", scale=40.0) * n**0.5
        ),
    }
    assert forge(honest, tmp_path / "ok", both, notes=right) == ""
    for number, wrong in enumerate(
        ({}, {"searches left out, %": 1}, right | {"queries left out": 1})
    ):
        message = forge(honest, tmp_path / str(number), both, notes=wrong)
        assert "does not follow from the tables" in message


def test_remarks_where_nothing_follows_are_caught(honest, tmp_path):
    message = forge(
        honest, tmp_path / "o", {"query": (THRESHOLD, QUERY)}, notes={"invented users": 5}
    )
    assert "does not follow from the tables" in message


# --- cards, words and files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    sample_cases([
        ({"about": {"title": "x\n\n## Privacy\n\nepsilon 0.001"}}, "one plain line"),
        ({"about": {"title": "\u202etitle"}}, "one plain line"),
        ({"about": {"foo": "user 17 asked x"}}, "`about` holds keys other"),
        ({"unprotected": ("a\nb",)}, "one plain line"),
        ({"release_id": "a\nledger  ok"}, "release_id must be 32 hexadecimal digits"),
        ({"release_id": "0" * 31}, "release_id must be 32 hexadecimal digits"),
        ({"declared_users": -5}, "declared_users must be a whole number"),
        (
            {"booked": {"source": "s", "releases_before": -1, "epsilon_before": 1.0,
                        "delta_before": 0.0}},
            "ledger.releases_before must be",
        ),
        (
            {"booked": {"source": "s", "releases_before": 1, "epsilon_before": -5.0,
                        "delta_before": 0.0}},
            "ledger.epsilon_before must be",
        ),
    ], every=2),
)  # fmt: skip
def test_words_and_numbers_that_no_release_has_are_caught(honest, tmp_path, changes, message):
    assert message in forge(honest, tmp_path / "out", {"query": (THRESHOLD, QUERY)}, **changes)


@pytest.mark.parametrize(
    "said",
    [
        {"about": {"title": "x\n# y"}},
        {"about": {"description": "x" * 10_001}},
        {"unprotected": ["a\nb"]},
        {"source_name": "a\nb"},
        {"by": ("country", ["D\nE"])},
    ],
)
def test_words_that_are_not_a_line_are_refused_before_anything_is_booked(log, tmp_path, said):
    keywords = {
        "tables": ["query"],
        "ledger": tmp_path / "l.db",
        "source_name": "s",
        "new_source": True,
    } | said
    with pytest.raises(UsageError, match="one plain line"):
        murmurlog.release(log, out=tmp_path / "out", **keywords)
    assert not (tmp_path / "l.db").exists()


def test_other_spaces_and_joiners_are_plain_and_a_description_is_no_heading(log, tmp_path):
    about = {"title": "日本\u3000ログ", "description": "# Epsilon\u00a00.001"}
    murmurlog.release(log, out=tmp_path / "out", tables=["query"], epsilon=2, about=about)
    assert murmurlog.verify(tmp_path / "out").ok
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "\n\\# Epsilon" in card


def test_what_a_certificate_says_of_the_ledger_is_compared_with_it(log, tmp_path):
    book = tmp_path / "l.db"
    for name in ("first", "second"):
        murmurlog.release(
            log,
            out=tmp_path / name,
            tables=["query"],
            epsilon=1,
            ledger=book,
            source_name="s",
            new_source=True,
        )
        assert murmurlog.verify(tmp_path / name, ledger=book).ok
    certificate = read_certificate(tmp_path / "second")
    tables = murmurlog.load(tmp_path / "second").tables
    assert certificate.booked["releases_before"] == 1
    for n, wrong in enumerate(
        (
            {"releases_before": 0},
            {"source": "another log"},
            None,
        )
    ):
        booked = None if wrong is None else {**certificate.booked, **wrong}
        publish(tmp_path / str(n), tables=tables, certificate=replace(certificate, booked=booked))
        assert murmurlog.verify(tmp_path / str(n)).ok
        report = murmurlog.verify(tmp_path / str(n), ledger=book)
        assert [check.name for check in report.checks if not check.ok] == ["ledger"]


def test_nothing_is_hidden_in_folders_or_columns(honest, tmp_path):
    out = tmp_path / "out"
    assert forge(honest, out, {"query": (THRESHOLD, QUERY)}) == ""
    (out / "data" / "u17 asked x").mkdir()
    assert "not part of a bundle" in murmurlog.verify(out).checks[0].message
    (out / "data" / "u17 asked x").rmdir()
    path = out / "data" / "query.parquet"
    table = pq.read_table(path)
    field = table.schema.field(0).with_metadata({"raw": "u17 asked x"})
    pq.write_table(table.cast(table.schema.set(0, field)), path, compression="zstd")
    cards = make_cards(read_certificate(out), sums(out), {"query": table})
    for name, card in cards.items():
        (out / name).write_text(card, encoding="utf-8")
    seal(out)
    failed = [check.message for check in murmurlog.verify(out).checks if not check.ok]
    assert failed == ["a column has its own metadata"]

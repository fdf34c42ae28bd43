"""The page without a browser: what it answers, to whom, and that it shows everything as text."""

import csv
import io
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import anyio
import numpy as np
import pyarrow as pa
import pytest
import sample_bundles
from command import run
from evaluations import make_evaluation
from starlette.testclient import TestClient

from murmurlog.bundle import estimates
from murmurlog.bundle.export import unescape_cell
from murmurlog.bundle.keys import normalise
from murmurlog.bundle.schema import keys_of
from murmurlog.cli.serve import verify_bundle
from murmurlog.errors import BundleError, Refused, UsageError
from murmurlog.evaluation import report
from murmurlog.web import app as application
from murmurlog.web import guard as limits
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.compare import combined_cost, compare_tables
from murmurlog.web.guard import HEADERS, Hosts
from murmurlog.web.index import Index
from murmurlog.web.query_lookup import look_up

PAGE = Path(application.__file__).parent
VIEWS = ("/", "/?q=weather", "/?q=no+such+thing", "/top", "/privacy", "/compare")
AT = "http://127.0.0.1:8765"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("bundles")
    return (
        sample_bundles.write_small_bundle(root / "spring", title="Searches of spring"),
        sample_bundles.write_small_bundle(
            root / "summer", title="Searches of summer", hostile=False, scale=1.3
        ),
    )


@pytest.fixture(scope="module")
def bundles(folders):
    return ServedBundles(folders)


@pytest.fixture(scope="module")
def bundle(bundles):
    return bundles.first


def make_client(bundles, **hosts):
    made = application.make(bundles, verifier=verify_bundle, hosts=Hosts(**{"port": 8765, **hosts}))
    return TestClient(made, base_url=AT, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(bundles):
    return make_client(bundles)


class ParsedPage(HTMLParser):
    """Tags, attributes and texts of a page, as a browser would see them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        for tag in self.open:
            self.texts.setdefault(tag, []).append(data)

    def text(self, tag):
        return " ".join("".join(self.texts.get(tag, [])).split())


# --- views ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", VIEWS)
def test_every_view_answers_and_nothing_in_it_is_inline(client, address):
    answer = client.get(address)
    assert answer.status_code == 200
    page = ParsedPage(answer.text)
    assert page.tags.count("h1") == 1
    assert page.tags.count("script") == 1
    assert ("src", "/static/page.js") in page.attributes
    assert "style" not in page.tags
    for name, value in page.attributes:
        assert name != "style"
        assert not name.startswith("on")
        if name in ("href", "src", "action"):
            assert value.startswith(("/", "#")), value
    assert client.head(address).status_code == 200


def test_no_template_switches_escaping_off():
    for path in (PAGE / "templates").iterdir():
        assert not re.search(r"\|\s*safe|autoescape|Markup", path.read_text()), path.name


@pytest.mark.parametrize("text", sample_bundles.HOSTILE, ids=lambda text: ascii(text[:16]))
def test_hostile_queries_are_shown_as_text(client, bundle, text):
    query = normalise(text)
    answer = client.get("/", params={"q": text})
    page = ParsedPage(answer.text)
    assert answer.status_code == 200
    assert "Nothing published" not in answer.text
    assert not {"img", "style", "iframe", "b>"} & set(page.tags)
    assert page.tags.count("script") == 1
    shows = " ".join(query.split())
    assert page.text("h1") == (shows if len(query) <= 160 else shows[:159] + "…")
    assert ("value", query) in page.attributes  # the search box has it whole
    for address in ("/top", f"/top?match={quote(query[:60])}", "/compare"):
        assert ParsedPage(client.get(address).text).tags.count("script") == 1


def test_a_query_shows_its_numbers_with_their_intervals(client, bundle):
    table = bundle.release.tables["query"].to_pylist()
    row = next(row for row in table if row["query"] == "weather")
    sure = bundle.release.total("query", ["weather"])
    answer = client.get("/?q=Weather").text
    assert f"<b>{row['users']:,}</b>" in answer
    assert f"{sure.low:,.0f} to {sure.high:,.0f}" in answer
    finding = look_up(bundle, "weather")
    assert finding.counts[0].amount.low == pytest.approx(sure.low)
    clicks = bundle.release.tables["click"].to_pylist()
    assert [line.text for line in finding.clicks.lines] == [
        c["url"] for c in clicks if c["query"] == "weather"
    ]
    pairs = bundle.release.tables["pair"].to_pylist()
    assert [line.text for line in finding.after.lines] == [
        p["next_query"] for p in pairs if p["query"] == "weather"
    ]
    assert {line.text for line in finding.before.lines} == {
        p["query"] for p in pairs if p["next_query"] == "weather"
    }


def test_an_unreliable_count_is_marked(client, bundle):
    pair = bundle.index.sheets["pair"]
    row = int(np.flatnonzero(~pair.reliable)[0])
    keys = pair.texts(np.array([row]))[0]
    answer = client.get("/", params={"q": keys["query"]}).text
    assert re.search(r'<li class="unsure">\s*<span class="name">.*unreliable', answer, re.DOTALL)
    assert 'class="dim"' in client.get("/top?table=pair&order=rising").text


def test_an_unknown_query_gets_a_sentence_and_its_neighbours(client, bundle):
    needed = bundle.certificate.tables["query"].passes["0.95"]
    answer = client.get("/?q=weather+in+atlantis")
    assert (
        f"fewer than about {needed} users searched for it, or the noise removed it" in answer.text
    )
    assert "<bdi>weather</bdi></a>" in answer.text
    assert "No text remains after normalisation." in client.get("/?q=%20%00").text


# --- the index ------------------------------------------------------------------------------------


def test_completions_and_related_queries_are_those_of_the_release(client, bundle):
    for begun in ("w", "weather ", "be", "zz", "", "<", "=h"):
        got = client.get("/complete", params={"q": begun}).json()["completions"]
        completions = [(c["query"], c["count"]["value"]) for c in got]
        assert completions == bundle.release.complete(begun, 8)
        assert all(c["count"]["low"] < c["count"]["value"] < c["count"]["high"] for c in got)
    for query in ("weather", "news", "no such", "<script>alert(1)</script>"):
        ours = bundle.index.related(bundle.index.place(query), 9)
        theirs = bundle.release.related(query, 9)
        assert [q for q, _ in ours] == [q for q, _ in theirs]
        assert [s for _, s in ours] == pytest.approx([s for _, s in theirs])


def test_intervals_of_rows_are_those_of_sums_of_one_row(bundle):
    for name, sheet in bundle.index.sheets.items():
        counts = estimates.counts(name, sheet.table, bundle.certificate.tables[name])
        for row in (0, 7, len(sheet) - 1):
            mask = np.arange(len(sheet)) == row
            whole = estimates.total(counts, mask)
            assert sheet.low[row] == pytest.approx(whole.low)
            assert sheet.high[row] == pytest.approx(whole.high)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("we", lambda q: q.startswith("we")),
        ("*film*", lambda q: "film" in q),
        ("b??k *", lambda q: re.fullmatch(r"b..k .*", q)),
        ("%", lambda q: q.startswith("%")),
        ("*_*", lambda q: "_" in q),
        ("WEATHER ", lambda q: q.startswith("weather ")),
        ("\u0e02", lambda q: q.startswith("\u0e02")),
    ],
)
def test_top_finds_what_a_loop_would(client, bundle, match, matches):
    rows = [r for r in bundle.release.tables["query"].to_pylist() if matches(r["query"])]
    assert list_keys(client, match=match) == [row["query"] for row in rows]


def list_keys(client, **wanted):
    """The first key of each row of the list that these parameters select."""
    lines = client.get("/top.tsv", params=wanted).content.decode().split("\n")[1:-1]
    return [unescape_cell(line.split("\t")[0]) for line in lines]


def test_top_sorts_and_turns_pages(client, bundle):
    rows = bundle.release.tables["query"].to_pylist()
    texts = sorted(row["query"] for row in rows)
    assert list_keys(client, sort="text") == texts
    assert list_keys(client, sort="text", order="falling") == texts[::-1]
    assert list_keys(client, order="rising") == [row["query"] for row in rows][::-1]
    error = [r["users_stderr"] / r["users"] for r in rows]
    least = sorted(range(len(rows)), key=lambda n: error[n])
    assert list_keys(client, sort="error") == [rows[n]["query"] for n in least]
    places = [
        place
        for page in (1, 2, 3)
        for place in re.findall(r'place">([\d,]+)<', client.get(f"/top?size=200&page={page}").text)
    ]
    assert places == [f"{n:,}" for n in range(1, len(rows) + 1)]
    assert "Page 3 of 3" in client.get("/top?page=99999&size=200").text
    assert "No published row matches" in client.get("/top?match=zzzz").text
    assert 'aria-sort="ascending"' in client.get("/top?sort=text").text
    visits = list_keys(client, table="click", column="url", match="wiki")
    assert len(visits) == sum(r["url"] == "wiki.example" for r in _rows(bundle, "click"))


def _rows(bundle, name):
    return bundle.release.tables[name].to_pylist()


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_an_exported_list_holds_all_rows_and_runs_nothing(client, bundle, kind):
    answer = client.get(f"/top.{kind}")
    assert answer.headers["content-disposition"] == f'attachment; filename="query.{kind}"'
    text = answer.content.decode()
    lines = (
        list(csv.reader(io.StringIO(text, newline="")))
        if kind == "csv"
        else [line.split("\t") for line in text.split("\n")[:-1]]
    )
    assert lines[0] == bundle.release.tables["query"].column_names
    assert [unescape_cell(line[0]) for line in lines[1:]] == [
        r["query"] for r in _rows(bundle, "query")
    ]
    assert [int(line[1]) for line in lines[1:]] == [r["users"] for r in _rows(bundle, "query")]
    assert not any(line[0][0] in "=+-@\t\r" for line in lines)
    some = client.get(f"/top.{kind}?match=we&sort=text").text.splitlines()
    assert len(some) - 1 == sum(r["query"].startswith("we") for r in _rows(bundle, "query"))


def index_of(bundle, tables, **changed):
    """An index over other tables under the same certificate."""
    claims = {
        name: replace(bundle.certificate.tables["query"], count=count)
        for name, (_, count) in tables.items()
    }
    certificate = SimpleNamespace(
        **{**vars(bundle.certificate), "tables": claims, "by": None, **changed}
    )
    release = SimpleNamespace(
        certificate=certificate, tables={name: table for name, (table, _) in tables.items()}
    )
    return SimpleNamespace(index=Index(release), certificate=certificate, release=release)


def test_sessions_logs_and_keys_without_counts_can_be_looked_at(bundle):
    sessions = pa.table({"queries": [["a", "b"], ["b", "c"], ["a"]], "users": [90, 80, 70]})
    indexed = index_of(bundle, {"session": (sessions, None)})
    finding = look_up(indexed, "b")
    assert [line.text for line in finding.after.lines] == ["c"]
    assert [line.text for line in finding.before.lines] == ["a"]
    assert finding.after.lines[0].amount.low is None  # a sum of ours, no law is known for it
    sheet = indexed.index.sheets["session"]
    rows = sheet.find("c", column="queries", sort="text", falling=False)
    assert sheet.texts(rows) == [{"queries": ["b", "c"]}]

    keys = pa.table({"query": ["x", "y"]})
    indexed = index_of(bundle, {"query": (keys, None)})
    assert look_up(indexed, "y").counts[0].amount is None
    assert look_up(indexed, "y").clicks is None

    log = pa.table(
        {
            "user": ["1", "1", "2"],
            "query": ["q", "r", "q"],
            "url": ["u", "v", "u"],
            "count": [1, 2, 1],
        }
    )
    indexed = index_of(bundle, {"log": (log, None)})
    assert indexed.index.tables == ["query", "click"]
    assert look_up(indexed, "q").counts[0].amount.value == 2


def test_counts_by_a_column_are_shown_one_by_one(bundle):
    by = SimpleNamespace(column="country", values=("DE", "FR"))
    assert keys_of("query", by) == ("query", "country")
    table = pa.table(
        {
            "query": ["a", "a", "b"],
            "country": ["DE", "FR", "DE"],
            "users": [300, 200, 100],
            "users_stderr": [9.0, 9.0, 9.0],
            "reliable": [True, True, True],
        }
    )
    indexed = index_of(bundle, {"query": (table, "users")}, by=by)
    assert [(c.also, c.amount.value) for c in look_up(indexed, "a").counts] == [
        ("DE", 300),
        ("FR", 200),
    ]
    assert indexed.index.complete("a", 3) == [("a", 500.0)]


# --- who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200),
        ("localhost:8765", 200),
        ("LOCALHOST", 200),
        ("[::1]:8765", 200),
        ("localhost:1", 421),
        ("evil.example", 421),
        ("evil.example:8765", 421),
        ("127.0.0.1.evil.example:8765", 421),
        ("localhost.evil.example", 421),
        ("192.168.0.7:8765", 421),
        ("127.0.0.1:8765@evil.example", 421),
        ("127.0.0.1:8765, evil.example", 421),
        ("localhost:99999999", 421),
        ("", 421),
        ("[::1", 421),
        ("\u212aelvin", 421),
    ],
)
def test_only_names_of_this_machine_are_answered(client, host, status):
    answer = client.get("/complete?q=w", headers={"host": host.encode()})
    assert answer.status_code == status
    assert ("completions" in answer.json()) == (status == 200)


def test_beyond_loopback_addresses_count_and_names_that_were_told():
    hosts = Hosts(address="0.0.0.0", port=80, names=("logs.example",))
    assert not hosts.loopback
    for host in ("10.0.0.3", "10.0.0.3:80", "logs.example", "localhost", "[fe80::1]:80"):
        assert hosts.allow(host)
    for host in ("evil.example", "10.0.0.3:81", "10.0.0.3.evil.example", "logs.example.evil"):
        assert not hosts.allow(host)
    assert Hosts(address="::1").loopback


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"])
def test_the_page_is_read_only(client, method):
    for address in ("/", "/verify", "/static/page.js", "/nowhere"):
        answer = client.request(method, address)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"


def test_large_requests_are_refused(client):
    body = client.request("GET", "/", content=b"x" * 10)
    assert body.status_code == 413
    chunked = client.request("GET", "/complete", headers={"transfer-encoding": "chunked"})
    assert chunked.status_code == 413
    assert asked_raw(client, "/complete", b"q=" + b"a" * 70_000)[0] == 414
    letters = client.get("/?q=" + "a" * 13_000)
    assert letters.status_code == 400
    assert "at most 12,000" in letters.text
    assert client.get("/?q=" + quote("\u0e02" * 3_300)).status_code == 200  # 30 kB as it is written


@pytest.mark.parametrize(
    "address", ["/", "/nowhere", "/top?page=x", "/static/page.css", "/top.csv", "/complete?q=w"]
)
def test_every_answer_keeps_to_itself(client, address):
    headers = client.get(address).headers
    for name, value in HEADERS.items():
        assert headers[name] == value
    assert "unsafe" not in headers["content-security-policy"]
    assert "server" not in headers
    assert headers["cache-control"] in ("no-store", "no-cache")


def asked_raw(client, path, query=b""):
    """(status, body) of a request as it is written, past the client's own tidying."""
    answers = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path.replace("%2e", ".").replace("%2f", "/").replace("%00", "\0"),
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        answers.append(message)

    anyio.run(client.app, scope, receive, send)
    return answers[0]["status"], b"".join(a.get("body", b"") for a in answers[1:])


@pytest.mark.parametrize(
    "path",
    [
        "/../privacy.json",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2fcli%2fmain.py",
        "/static//etc/passwd",
        "/static/page.css%00.html",
        "/static/....//app.py",
        "/static/..\\app.py",
        "/data/query.parquet",
        "/report.html",
        "/SHA256SUMS",
        "/templates/base.html",
        "//etc/passwd",
        "/complete/../../privacy.json",
    ],
)
def test_no_address_leads_to_a_file(client, path):
    status, body = asked_raw(client, path)
    assert status == 404
    assert b"release_id" not in body
    assert b"import" not in body


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/top?page=x", 400, "page must be a whole number"),
        ("/top?page=0", 400, "page must lie between"),
        ("/top?page=-1", 400, "page must be a whole number"),
        ("/top?page=%D9%A1", 400, "page must be a whole number"),
        ("/top?size=7", 400, "size must be one of 25, 50, 100, 200"),
        ("/top?sort=users;drop", 400, "sort must be one of"),
        ("/top?table=../log", 400, "table must be one of"),
        ("/top?table=query&column=url", 400, "column must be one of query"),
        ("/?b=nothing", 404, "there is no bundle"),
        ("/?b=../spring", 404, "there is no bundle"),
        ("/api", 404, "There is no such page"),
        ("/privacy?check=maybe", 400, "check must be one of"),
        ("/compare?with=none", 404, "there is no bundle"),
        ("/nowhere", 404, "There is no such page"),
    ],
)
def test_a_wrong_parameter_gives_a_page_that_says_so(client, address, status, words):
    answer = client.get(address)
    assert answer.status_code == status
    assert words in answer.text
    assert ParsedPage(answer.text).tags.count("h1") == 1
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("address", ["/complete?q=a&b=x", "/verify?b=x"])
def test_the_script_is_told_in_json(client, address):
    answer = client.get(address)
    assert answer.status_code == 404
    assert "there is no bundle" in answer.json()["error"]


def test_what_breaks_inside_says_nothing_about_itself(bundles):
    def broken(path):
        raise RuntimeError("a path of this machine")

    made = application.make(bundles, verifier=broken, hosts=Hosts(port=8765))
    asked = TestClient(made, base_url=AT, raise_server_exceptions=False)
    answer = asked.get("/privacy?check=now")
    assert answer.status_code == 500
    assert "a path" not in answer.text
    assert answer.headers["content-security-policy"] == limits.POLICY
    assert asked.get("/verify").json()["error"] == "murmurlog has an internal error."


# --- the other views ------------------------------------------------------------------------------


def test_privacy_has_the_label_the_hashes_and_a_live_check(client, bundle, folders, tmp_path):
    answer = client.get("/privacy").text
    for words in (
        "one user",
        "× 7.39 at most (epsilon 2)",
        "An item needs about",
        "in one account",
    ):
        assert words in answer
    assert answer.index("Protected unit") < answer.index("epsilon 2")  # the unit comes first
    for _, digest in bundle.hashes:
        assert digest in answer
    assert "All claims hold." in client.get("/privacy?check=now").text
    copy = shutil.copytree(folders[0], tmp_path / "copy")
    page = make_client(ServedBundles([copy]))
    (copy / "README.md").write_text("something else")
    assert page.get("/verify").json()["ok"] is False


def test_a_bundle_is_verified_again_only_when_a_file_has_changed(folders, tmp_path):
    copy = shutil.copytree(folders[0], tmp_path / "copy")
    calls = []

    def counting(path):
        calls.append(path)
        return {"ok": True, "checks": []}

    made = application.make(ServedBundles([copy]), verifier=counting, hosts=Hosts(port=8765))
    asked = TestClient(made, base_url=AT)
    for _ in range(3):
        asked.get("/verify")
    assert len(calls) == 1
    (copy / "README.md").write_bytes((copy / "README.md").read_bytes())  # the same, but touched
    asked.get("/verify")
    assert len(calls) == 2
    (copy / "more.txt").write_text("")
    asked.get("/verify")
    assert len(calls) == 3


def test_compare_tells_gained_from_lost(client, bundles):
    a, b = bundles.by_name.values()
    ours = {row["query"]: row for row in _rows(a, "query")}
    theirs = {row["query"]: row for row in _rows(b, "query")}
    comparison = compare_tables(a, b, "query")
    assert len(comparison.gained) == len(set(theirs) - set(ours))
    assert len(comparison.lost) == len(set(ours) - set(theirs))
    assert len(comparison.common[0]) == len(set(ours) & set(theirs))
    lost = [row["query"] for row in _rows(a, "query") if row["query"] not in theirs]
    assert [keys["query"] for keys in comparison.before.texts(comparison.lost)] == lost
    assert {"query": "weather"} in comparison.after.texts(comparison.rose[1])
    assert combined_cost(a, b).sum.epsilon == pytest.approx(4.0)
    page = client.get("/compare?b=spring&with=summer").text
    assert all(f"<bdi>{text}</bdi>" in page for text in lost[:15] if text.isalnum())
    assert len(compare_tables(a, b, "pair").common[0]) == len(
        {(r["query"], r["next_query"]) for r in _rows(a, "pair")}
        & {(r["query"], r["next_query"]) for r in _rows(b, "pair")}
    )
    assert combined_cost(a, a).sum.epsilon == pytest.approx(2.0)  # one release costs once
    assert "Start the page with two" in make_client(_bundles_of(a)).get("/compare").text


def _bundles_of(bundle):
    bundles = ServedBundles.__new__(ServedBundles)
    bundles.by_name = {bundle.name: bundle}
    return bundles


# --- which bundles are served ---------------------------------------------------------------------


def test_internal_reports_are_refused(folders, tmp_path):
    internal = report.page(make_evaluation())
    alone = tmp_path / "evaluation"
    alone.mkdir()
    (alone / "report.html").write_text(internal)
    with pytest.raises(Refused, match="internal report"):
        ServedBundles([alone])
    with pytest.raises(Refused, match="internal report"):
        ServedBundles([alone / "report.html"])
    with pytest.raises(Refused, match="internal report"):  # however good the other one is
        ServedBundles([folders[0], alone])
    done = run("serve", alone, "--no-browser")
    assert done.returncode == 3
    assert "must not be served" in done.stderr


def test_what_is_no_whole_bundle_is_not_shown(folders, tmp_path):
    with pytest.raises(BundleError, match="there is no folder"):
        ServedBundles([tmp_path / "nothing"])
    with pytest.raises(BundleError, match="no bundle"):
        ServedBundles([tmp_path])
    with pytest.raises(UsageError, match="no bundle to show"):
        ServedBundles([])
    copy = shutil.copytree(folders[0], tmp_path / "copy")
    (copy / "notes.txt").write_text("of the owner")
    with pytest.raises(BundleError, match="too many or too few files"):
        ServedBundles([copy])
    (copy / "notes.txt").unlink()
    (copy / "data" / "log.parquet").symlink_to(tmp_path)
    with pytest.raises(BundleError, match="a link"):
        ServedBundles([copy])


def test_two_bundles_of_one_name_are_told_apart(folders):
    names = list(ServedBundles([folders[0], folders[0]]).by_name)
    assert names == ["spring", "spring-2"]


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--port", "70000"], 2, "--port must lie between"),
        (["--host", "logs.example"], 2, "a name goes to --name"),
    ],
)
def test_serve_says_what_is_wrong(folders, flags, code, words):
    done = run("serve", folders[0], "--no-browser", *flags)
    assert done.returncode == code
    assert words in done.stderr


def test_serve_names_what_is_missing(folders, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = run("serve", folders[0], "--no-browser")
    assert done.returncode == 5
    assert "pip install starlette uvicorn jinja2" in done.stderr

"""Forged cards: of this version, of another one that words its cards otherwise, and of format 1."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import certified, counted
from hostile_bundles import seal
from thinning import thinned
from wording import OTHER, word_otherwise

import murmurlog
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.schema import By
from murmurlog.bundle.write import publish

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = ("own", "another", "format-1", "golden-1")
TABLES = {
    "query": counted("query", ["weather", 900, 3.0], ["maps", 300, 3.0]),
    "click": counted("click", ["weather", "a.example", 500, 3.0]),
}


def write(out, certificate, monkeypatch, *, otherwise):
    with monkeypatch.context() as patch:
        if otherwise:
            word_otherwise(patch)
        tables = {name: TABLES[name] for name in certificate.tables}
        publish(out, tables=tables, certificate=certificate)
    return out


@pytest.fixture(params=thinned(KINDS, every=3))
def bundle(request, tmp_path, monkeypatch):
    out, kind = tmp_path / "bundle", request.param
    if kind == "golden-1":
        word_otherwise(monkeypatch)  # now this version words its cards otherwise
        shutil.copytree(GOLDEN / "bundle-1", out)
    else:
        made = certified(TABLES, about={"title": "Shop"}, declared_users=10_000)
        if kind != "own":
            number = 1 if kind == "format-1" else made.format
            made = replace(made, murmurlog=OTHER, format=number)
        write(out, made, monkeypatch, otherwise=kind != "own")
    assert murmurlog.verify(out).ok
    return out


def cards_check(out):
    seal(out)
    failed = [check for check in murmurlog.verify(out).checks if not check.ok]
    assert [check.name for check in failed] in ([], ["cards"])
    return failed[0].message if failed else None


def swap(old, new):
    def change(text):
        assert re.search(old, text), old
        return re.sub(old, new, text, count=1)

    return change


def edit_json(change):
    def edit(text):
        value = json.loads(text)
        change(value)
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

    return edit


EPSILON = r"epsilon [\d.]+"
FORGERIES = {
    "README.md": [
        lambda text: "# epsilon 0.001\n",
        lambda text: "",
        lambda text: text + " ",
        lambda text: text + "\n",
        lambda text: text.replace("\n", "\r\n", 1),
        swap(r"\(epsilon [\d.]+", "(epsilon 0.1"),
        swap(r"\(epsilon [\d.]+", "(epsilon of only 0.1"),
        swap(r"at most [\d.e-]+ \(delta", "at most 1e-30 (delta"),
        swap(r"factor of at most [\d,.]+", "factor of at most 1.01"),
        swap(r"(?m)^Protected unit.*$", "Everybody is safe."),
        swap(r"(?m)^Protected unit: one user", "Protected unit: one company"),
        swap(r"\| query \| \d+", "| query | 999999"),
        swap(r"\| query \|.*\n", ""),
        swap(r"(?m)(\| click \|.*)$", r"\1\n| pair | 7 | `none` | 0 | 0 |"),
        swap(r"scale=2.0|sigma=10.876", "scale=200.0"),
        swap("## Limits", "ε = 0.1 for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is 0.1 for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is １ for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is ½ for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is .5 for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is 0,005 for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is 0**.**1 for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is 0\\\\.1 for everyone.\n\n## Limits"),
        swap("## Limits", "The epsilon is &half; for everyone.\n\n## Limits"),
        swap("## Limits", "A risk of 0.1 %.\n\n## Limits"),
        swap("## Limits", "User 17 asked it 31 times.\n\n## Limits"),
        swap("## Limits", "<b>Safe</b>\n\n## Limits"),
        swap("## Limits", "<!-- safe -->\n\n## Limits"),
        swap("## Limits", "sa\u200bfe \u202e\n\n## Limits"),
        swap("## Limits", "# Another title\n\n## Limits"),
        swap("import duckdb", "import os\nimport duckdb"),
        swap(r"(?m)^- A0: .*\n", ""),
        swap(r"(?m)^- A1: .*$", "- A1: Nothing."),
        swap(r"Release \w{32}", "Release " + "0" * 32),
        swap(r"(?m)^Release (.*), murmurlog .*$", r"Release \1, murmurlog 7."),
        swap("license_name: .*", 'license_name: "CC0"'),
        swap("---\n", '---\nextra: "epsilon 0"\n'),
        swap("(?m)^# .*$", "# Another"),
    ],
    "report.html": [
        lambda text: "",
        lambda text: text + "<!-- raw counts -->",
        lambda text: text + "<p>epsilon 0.1</p>\n",
        lambda text: text.replace("\n", "\r\n", 1),
        swap(EPSILON, "epsilon 1"),
        swap(EPSILON, "epsilon <b>0</b>.1"),
        swap(EPSILON, "epsilon <b>0</b><b>\u200d</b>.1"),
        swap(r"× [\d,.]+", "× 1.01"),
        swap(r"<li><b>\d+</b>", "<li><b>999</b>"),
        swap(r"1 in [\d,]+", "1 in 999,999,999,999"),
        swap("<footer>", "<p>The epsilon is 0.1.</p><footer>"),
        swap("<footer>", "<p>Asked by 17 people.</p><footer>"),
        swap("<footer>", "<script>alert(1)</script><footer>"),
        swap("<footer>", '<p style="color:red">x</p><footer>'),
        swap("<footer>", "<p hidden>x</p><footer>"),
        swap("<footer>", '<a href="https://example.org">x</a><footer>'),
        swap("<footer>", '<img src="x"><footer>'),
        swap("<footer>", "<?x?><footer>"),
        swap("<footer>", "<p>epsilon 0<text>.1</text></p><footer>"),
        swap("<footer>", "<footer><p>"),
        swap("</style>", "p::after { content: 'epsilon 0.1' }</style>"),
        swap("</style>", ".label { display: none }</style>"),
        swap("</svg>", '<text x="1" y="1">epsilon 0.1</text></svg>'),
        swap('aria-label="', 'aria-label="epsilon 0.1 '),
        swap(r'<td class="n">[\d,]+</td>', '<td class="n">7</td>'),
        swap("<bdi>weather</bdi>", "<bdi>user 17</bdi>"),
        swap("</tbody>", '<tr><td class="key">more</td></tr></tbody>'),
        swap(r"(?s)<dl>.*?</dl>", "<dl></dl>"),
        swap("<h1>.*</h1>", "<h1>Another</h1>"),
        swap("<h1>", "<h1>More</h1><h1>"),
        swap("default-src 'none'|default-src &#x27;none&#x27;", "default-src *"),
        swap(r"Release \w{32}", "Release " + "0" * 32),
        swap(r"<li>A0: .*?</li>", "<li>A0: Nothing.</li>"),
    ],
    "croissant.json": [
        swap(EPSILON, "epsilon 0.1"),
        swap("Protected unit[^\"]*", "Safe."),
        swap('"sha256": "..', '"sha256": "00'),
        swap('"version"', '"version": "1.0.0",\n  "version"'),
        swap('"sc:Integer"', '"sc:Text"'),
        lambda text: text + " ",
        edit_json(lambda card: card.update(claim="epsilon 0.1")),
        edit_json(lambda card: card["recordSet"].pop()),
        edit_json(lambda card: card["recordSet"][0]["field"][0].update(description="7 users")),
        edit_json(lambda card: card.update({"license": "CC0", "x": {}})),
    ],
    "datapackage.json": [
        swap(EPSILON, "epsilon 0.1"),
        swap("hash\": \"sha256:..", "hash\": \"sha256:00"),
        swap('"id": "..', '"id": "00'),
        edit_json(lambda card: card.update(epsilon=0.1)),
        edit_json(lambda card: card["resources"][0].update(path="data/click.parquet")),
        edit_json(
            lambda card: (
                card["resources"][0].update(path="data/click.parquet"),
                card.update({"resources/0/path": "data/query.parquet"}),
            )
        ),
    ],
    "deployment.yaml": [
        swap(r"epsilon: [\d.]+", "epsilon: 0.1"),
        swap(r"delta: [\d.e-]+", "delta: 1.0e-30"),
        swap('privacy_unit: "user"', 'privacy_unit: "user-day"'),
        swap("urls: path", "urls: host"),
        swap("bounded \\(first\\)", "bounded (random)"),
        swap("entropy: operating system", "entropy: dice"),
        swap("query: (threshold|rounds)\\(", "query: k-query("),
        swap('tier: 3', "tier: 1"),
        swap('tier: 3', "tier: 3\ntier: 3"),
        swap('tier: 3', "tier: 3 # epsilon 0.1"),
        lambda text: text + "claim: \"epsilon 0.1\"\n",
    ],
}  # fmt: skip


@pytest.mark.parametrize("card", FORGERIES)
def test_a_forged_card_fails_whoever_wrote_it(bundle, card):
    path = bundle / card
    honest = path.read_bytes()
    for number, change in enumerate(FORGERIES[card]):
        forged = change(honest.decode()).encode()
        assert forged != honest, number
        path.write_bytes(forged)
        message = cards_check(bundle)
        assert message is not None, (card, number)
        assert card in message
    path.write_bytes(honest)
    assert cards_check(bundle) is None


def test_a_sentence_without_numbers_is_shown_not_believed(bundle, request):
    """What prose of another version claims cannot be checked, and verify does not say that it was."""
    path = bundle / "README.md"
    path.write_text(
        swap("## Limits", "Nobody can be found in here.\n\n## Limits")(path.read_text())
    )
    seal(bundle)
    check = murmurlog.verify(bundle).checks[-1]
    if "own" in request.node.callspec.id:
        assert (check.ok, check.message) == (False, "README.md is not what the certificate gives")
    else:
        assert check.ok
        assert "stated facts checked, wording and look of README.md" in check.message
        assert "worded differently" in check.message


def test_the_first_passage_that_is_worded_otherwise_is_quoted(tmp_path):
    bundle = shutil.copytree(GOLDEN / "bundle-2", tmp_path / "bundle")
    path = bundle / "README.md"
    path.write_text(path.read_text().replace("# Golden\n", "# Golden\n\nSafe!\n"))
    seal(bundle)
    assert "README.md: 'Safe!'" in murmurlog.verify(bundle).checks[-1].message


CERTIFICATES = [
    lambda c: c["about"].update(title="Another"),
    lambda c: c["about"].update(publisher="Another"),
    lambda c: c.update(release_id="0" * 32),
    lambda c: c.update(published="2020-01-01"),
    lambda c: c.update(murmurlog="0.0.1"),
    lambda c: c.update(bound="random"),
    lambda c: c.update(unprotected=["per-user 7"]),
    lambda c: c.update(planned_by="a profile"),
    lambda c: c.update(declared_users=7, delta_times_users=c["guarantee"]["delta"] * 7),
    lambda c: c["text"].update(url="host"),
    lambda c: c["text"].update(screen=["email"]),
    lambda c: c["text"].update(normaliser="another"),
    lambda c: c["assumptions"].update(A0="Nothing is assumed."),
    lambda c: c["guarantee"].update(epsilon=c["guarantee"]["epsilon"] * 2),
    lambda c: c["tables"]["query"]["guarantee"].update(delta=1e-3),
    lambda c: c["guarantee"].update(epsilon=0.1),
    lambda c: c["tables"]["query"]["guarantee"].update(epsilon=0.1),
    lambda c: c["tables"]["query"].update(mechanism="k-query(k=5)"),
    lambda c: c["tables"]["query"].update(rows=1),
    lambda c: c["tables"]["query"].update(count="rows"),
    lambda c: c["tables"]["query"].update(true_users=300),
    lambda c: c.update(users_in_log=300),
    lambda c: c["assumptions"].pop("A1"),
    lambda c: c["noise"].update(method="dice"),
    lambda c: c["noise"].update(entropy="known seed"),
    lambda c: c.update(private=False),
    lambda c: c.update(composition="none"),
    lambda c: c.update(ledger={"source": "s", "releases_before": 3, "epsilon_before": 1.0,
                               "delta_before": 0.0}),
]  # fmt: skip


def test_a_forged_certificate_fails_whoever_wrote_it(bundle):
    path = bundle / "privacy.json"
    honest = path.read_text()
    for number, change in enumerate(CERTIFICATES):
        stated = json.loads(honest)
        change(stated)
        path.write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
        seal(bundle)
        assert not murmurlog.verify(bundle).ok, number


def test_a_bundle_does_not_pass_as_one_of_another_format(bundle):
    path = bundle / "privacy.json"
    stated = json.loads(path.read_text())
    stated["format"] = 2 if stated["format"] != 2 else "murmurlog-bundle-1"
    path.write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
    assert cards_check(bundle) is not None


def test_every_other_key_of_a_certificate_is_held_by_the_cards_of_format_2(bundle, request):
    if "1" in request.node.callspec.id:
        pytest.skip("cards of format 1 have no checksum of the certificate")
    path = bundle / "privacy.json"
    path.write_text(path.read_text().replace('"engine": "', '"engine": "other '))
    message = cards_check(bundle)
    assert "is not what" in message or "another front matter/dp/certificate" in message


def of_every_kind():
    by = By(column="country", values=("DE1", "FR2"))
    split = counted("query", ["weather", "DE1", 900, 3.0], by=by)
    booked = {
        "source": "shop 7",
        "releases_before": 3,
        "epsilon_before": 1.25,
        "delta_before": 1e-7,
    }
    words = {"title": "Year 2025: epsilon 9 ", "publisher": "Shop 24", "license": "CC-BY-4.0",
             "description": "All 17 shops; epsilon 77.", "region": "Area 51"}  # fmt: skip
    yield TABLES, {"booked": booked}
    yield TABLES, {"about": words, "unprotected": ("per-user 7", "x 8"), "planned_by": "profile 3"}
    yield {"query": split}, {"by": by}
    yield {"query": TABLES["query"].select(["query"])}, {}
    yield {"query": TABLES["query"].slice(0, 0)}, {"declared_users": 1_234_567}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", range(5))
def test_honest_cards_of_another_version_are_accepted(tmp_path, monkeypatch, number, kind):
    tables, said = list(of_every_kind())[kind]
    made = certified(tables, murmurlog=OTHER, format=number, **said)
    monkeypatch.setitem(globals(), "TABLES", tables)
    out = write(tmp_path / "out", made, monkeypatch, otherwise=True)
    report = murmurlog.verify(out)
    assert report.ok, [check for check in report.checks if not check.ok]
    assert "wording" in report.checks[-1].message


def test_a_certificate_of_another_version_may_word_its_assumptions(tmp_path, monkeypatch):
    said = Certificate.as_json

    def worded(self):
        stated = said(self)
        return {**stated, "assumptions": {name: f"As {name}." for name in stated["assumptions"]}}

    with monkeypatch.context() as patch:
        patch.setattr(Certificate, "as_json", worded)
        made = certified(TABLES, murmurlog=OTHER)
        publish(tmp_path / "out", tables=TABLES, certificate=made)
        publish(tmp_path / "own", tables=TABLES, certificate=certified(TABLES))
    report = murmurlog.verify(tmp_path / "out")
    assert report.ok, report
    assert f"of murmurlog {OTHER}, was not checked" in report.checks[1].message
    assert not murmurlog.verify(tmp_path / "own").ok


def test_a_card_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    bundle = shutil.copytree(GOLDEN / "bundle-2", tmp_path / "bundle")
    with (bundle / "README.md").open("ab") as file:
        file.write(b"x" * 200_000)
    seal(bundle)
    read = []
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or whole(path))
    assert "longer than a card" in murmurlog.verify(bundle).checks[-1].message
    assert "README.md" not in read

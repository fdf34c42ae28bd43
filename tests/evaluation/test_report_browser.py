"""Reports in a real browser: nothing overflows, fetches, runs or cannot be read; light and dark.

Needs Chromium on the machine and playwright; says so where they are not there.
"""

import os
import shutil
import subprocess

import pytest
from certificates import make_certificate, make_table
from evaluations import make_evaluation, make_sweep

from murmurlog.bundle.report import make_report
from murmurlog.evaluation import report

pytestmark = pytest.mark.slow

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SCRIPTS = {
    "天気予報": "5929",
    "الطقس اليوم": "0637",
    "मौसम": "092e",
    "погода": "043f",
    "ที่พัก": "0e17",
}
HOSTILE = "<script>alert(1)</script>"
SIZES = {"desktop": 1280, "phone": 390, "small phone": 320}

# Of every text that is seen: how it stands out from what is behind it (WCAG 2).
CONTRAST = """() => {
  const light = c => { const [r, g, b] = c.map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const parts = text => { const n = text.match(/[\\d.]+/g).map(Number);
    return n.length > 3 && n[3] === 0 ? null : n.slice(0, 3); };
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parts(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  const seen = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (seen.nextNode()) {
    const e = seen.currentNode.parentElement;
    if (!seen.currentNode.data.trim() || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), inside = e.closest("svg");
    const a = light(parts(inside ? style.fill : style.color)), b = light(behind(e));
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), seen.currentNode.data.trim()]);
  }
  return found.sort((x, y) => x[0] - y[0]).slice(0, 3);
}"""
# Texts of charts that leave their chart, and texts that lie on each other.
CHARTS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const box = svg.viewBox.baseVal, texts = [...svg.querySelectorAll("text")];
    const at = texts.map(t => t.getBBox());
    at.forEach((a, n) => {
      if (a.x < -1 || a.y < -1 || a.x + a.width > box.width + 1 || a.y + a.height > box.height + 1)
        found.push(["cut off", texts[n].textContent]);
      at.slice(n + 1).forEach((b, m) => {
        const w = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
        const h = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
        if (w > 1.5 && h > 0.4 * Math.min(a.height, b.height))
          found.push([texts[n].textContent, texts[n + 1 + m].textContent]);
      });
    });
  }
  return found;
}"""
# Letters that are drawn as the sign for a letter that no font has.
GLYPHS = """letters => {
  const canvas = document.createElement("canvas"); canvas.width = canvas.height = 60;
  const pen = canvas.getContext("2d", {willReadFrequently: true});
  pen.font = "32px " + getComputedStyle(document.body).fontFamily;
  const drawn = letter => { pen.clearRect(0, 0, 60, 60); pen.fillText(letter, 8, 42);
    return pen.getImageData(0, 0, 60, 60).data.join(); };
  const missing = drawn("\\u{10fffe}");
  return letters.filter(letter => drawn(letter) === missing || drawn(letter) === drawn("\\u{e000}"));
}"""


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as running:
        # Root, as in a container, cannot have Chromium's sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = running.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()


def hostile_report():
    """A bundle's report with hostile texts, long ones, and several scripts."""
    queries = [HOSTILE, "w" * 150, "a very long query of many words " * 5, *SCRIPTS]
    tables = {
        "query": make_table("query", *([q, 900 - 3 * n, 3.0] for n, q in enumerate(queries)),
                         *([f"query {n}", 41, 3.0 + n] for n in range(30))),
        "click": make_table("click", *([q, "example.org/" + "path/" * 30, 400, 9.0] for q in queries)),
        "session": make_table("session", *([[q, "b", "c"], 60, 40.0] for q in queries)),
        "pair": make_table("pair", [HOSTILE, HOSTILE, 50, 1.0]),
    }  # fmt: skip
    about = {"title": f"A log of {HOSTILE}", "publisher": "W" * 90, "license": "CC0-1.0"}
    text = "sessions(l_s=1, l_q=3, subsequences=all, noise=geometric, scale=1.0, T=20)"
    return make_report(make_certificate(tables, {"session": text}, about=about), tables)


PAGES = {
    "bundle report": hostile_report,
    "report": lambda: report.page(make_evaluation(hostile=True)),
    "dots": lambda: report.page(make_evaluation(epsilons=(1.0, 8.0))),
    "sweep": lambda: report.page(make_sweep()),
    "bounds": lambda: report.page(make_sweep("per-user")),
}


@pytest.fixture(params=PAGES)
def page_path(request, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(PAGES[request.param](), encoding="utf-8")
    return path


def open_page(browser, path, *, width=1280, scheme="light"):
    """The page, all of it unfolded, and what went over the network or to the console."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page, noise = context.new_page(), []
    page.on("console", lambda message: noise.append(("console", message.text)))
    page.on("pageerror", lambda error: noise.append(("error", str(error))))
    page.on("dialog", lambda dialog: (noise.append(("dialog", dialog.message)), dialog.dismiss()))
    page.on("request", lambda request: noise.append(("request", request.url)))
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    return page, [entry for entry in noise if entry != ("request", path.as_uri())]


@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES)
def test_nothing_overflows_runs_or_is_fetched(browser, page_path, width):
    page, noise = open_page(browser, page_path, width=width)
    assert noise == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("script").count() == 0
    assert (
        page.evaluate("[...document.querySelectorAll('[onload], [onerror], [onclick]')].length")
        == 0
    )


def test_a_hostile_query_is_a_text_that_is_seen(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(hostile_report(), encoding="utf-8")
    page, noise = open_page(browser, path)
    assert noise == []
    assert page.get_by_text(HOSTILE, exact=True).first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(browser, page_path, scheme):
    page, _ = open_page(browser, page_path, scheme=scheme)
    worst = page.evaluate(CONTRAST)
    assert worst
    assert worst[0][0] >= 4.5, worst
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = sum(map(int, paper[4:-1].split(","))) / 3
    assert (bright < 60) == (scheme == "dark")


def test_no_text_of_a_chart_is_cut_off_or_lies_on_another(browser, page_path):
    page, _ = open_page(browser, page_path)
    assert page.evaluate(CHARTS) == []


def test_no_glyph_is_missing(browser, page_path):
    page, _ = open_page(browser, page_path)
    letters = set(page.evaluate("document.body.innerText")) - set(" \n\t")
    for text, code in SCRIPTS.items():
        if not fonts_with(code):  # then no page could show it on this machine
            letters -= set(text)
    assert {"×", "±", "†"} & letters
    assert page.evaluate(GLYPHS, sorted(letters)) == []


def test_the_check_of_glyphs_finds_a_missing_one(browser, page_path):
    page, _ = open_page(browser, page_path)
    assert page.evaluate(GLYPHS, ["a", "\u0378", "×"]) == ["\u0378"]  # a place without a letter


def fonts_with(code):
    if shutil.which("fc-list") is None:
        return False
    listing = subprocess.run(
        ["fc-list", f":charset={code}", "family"], capture_output=True, text=True, check=True
    )
    return bool(listing.stdout.strip())


def test_charts_open_by_themselves(browser, tmp_path):
    for name, svg in report.charts(make_evaluation(hostile=True)).items():
        path = tmp_path / f"{name}.svg"
        path.write_text(svg, encoding="utf-8")
        page, noise = open_page(browser, path, scheme="dark")
        assert noise == []
        assert page.evaluate("document.documentElement.tagName") == "svg"
        assert page.evaluate("document.querySelectorAll('script').length") == 0
        page.context.close()

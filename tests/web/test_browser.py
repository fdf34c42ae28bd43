"""The page in a real browser: type, complete, open, go back, sort, slide, copy; keys alone; phone; dark.

Needs Playwright, axe (the group `browser` of pyproject.toml) and Debian's chromium; skipped without.
"""

import importlib.util
import re
import shutil
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import sample_bundles

from murmurlog.bundle.keys import normalise

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = [
    name
    for name, there in (
        ("playwright", importlib.util.find_spec("playwright")),
        ("axe-playwright-python", importlib.util.find_spec("axe_playwright_python")),
        ("chromium", CHROMIUM),
    )
    if not there
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no browser: {', '.join(MISSING)} not installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
VIEWS = {
    "explore": "/",
    "query": "/?q=weather",
    "hostile": "/?q=" + quote(sample_bundles.HOSTILE[1]),
    "unknown": "/?q=weather+in+atlantis",
    "top": "/top?table=click",
    "privacy": "/privacy",
    "compare": "/compare",
}
# What axe calls serious or critical fails; of the others it is the same list, printed.
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The page over two bundles, in a process of its own."""
    root = tmp_path_factory.mktemp("served")
    folders = [
        sample_bundles.write_small_bundle(root / "spring", title="Searches of spring"),
        sample_bundles.write_small_bundle(
            root / "summer", title="Searches of summer", hostile=False, scale=1.3
        ),
    ]
    with sample_bundles.serve_bundles(*folders) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class WatchedPage:
    """A page that remembers what it should not have done."""

    def __init__(self, context, base):
        self.base, self.faults = base, []
        self.page = context.new_page()
        self.page.on("console", lambda m: self.faults.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append("a dialog opened"))
        self.page.on("request", self._request)

    def _request(self, request):
        if urlsplit(request.url).netloc != urlsplit(self.base).netloc:
            self.faults.append(f"outside request: {request.url}")
        if request.method != "GET":
            self.faults.append(f"{request.method} {request.url}")

    def open(self, path):
        self.page.goto(self.base + path)
        if path.startswith("/privacy"):
            self.page.wait_for_selector("[data-verify-list] li", timeout=60_000)
        return self.page


@pytest.fixture
def open_page(browser, server):
    """Opens contexts of any kind; afterwards nothing forbidden may have happened."""
    made = []

    def start(**kind):
        kind.setdefault("viewport", {"width": 1280, "height": 900})
        context = browser.new_context(**kind)
        watched = WatchedPage(context, server)
        made.append((context, watched))
        return watched

    yield start
    for context, watched in made:
        context.close()
        assert watched.faults == []


def names(page):
    return page.locator("#completions li bdi").all_inner_texts()


def test_type_complete_open_and_go_back(open_page):
    page = open_page().open("/")
    page.locator("#q").press_sequentially("weath", delay=30)
    page.wait_for_selector("#completions li")
    assert names(page)[0] == "weather"
    assert page.get_attribute("#q", "aria-expanded") == "true"
    page.click("#completions li >> nth=0")
    page.wait_for_url("**q=weather*")
    assert page.inner_text("h1") == "weather"
    assert "95 %" in page.inner_text(".number")
    page.click("section:has-text('Next queries') a >> nth=0")
    assert page.inner_text("h1") != "weather"
    page.go_back()
    assert page.inner_text("h1") == "weather"
    page.go_back()
    assert page.inner_text("h1") == "Searches of spring"


def test_with_keys_alone(open_page):
    page = open_page().open("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("new", delay=30)
    page.wait_for_selector("#completions li")
    first = names(page)[0]
    page.keyboard.press("ArrowDown")
    assert page.input_value("#q") == first
    chosen = page.get_attribute("#q", "aria-activedescendant")
    assert page.get_attribute(f"#{chosen}", "aria-selected") == "true"
    page.keyboard.press("ArrowUp")
    assert page.input_value("#q") == "new"
    page.keyboard.press("Escape")
    assert page.get_attribute("#q", "aria-expanded") == "false"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=" + quote(first).replace("%20", "+") + "*")
    assert page.inner_text("h1") == first
    # From the top of the page: past the skip link to every view.
    page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert seen[0] == "Skip to the content"
    assert seen[2:6] == ["Explore", "Top", "Privacy", "Compare"]
    assert (
        page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    )  # where one is can be seen
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"


def test_a_link_can_be_shared(open_page):
    watched = open_page()
    page = watched.open("/?q=news&b=summer")
    assert page.inner_text("h1") == "news"
    assert page.input_value("#bundle") == "summer"
    page.select_option("#bundle", "spring")
    page.wait_for_url("**b=spring*q=news*")
    assert page.inner_text("h1") == "news"


def test_sort_filter_turn_and_take(open_page):
    page = open_page(accept_downloads=True).open("/top")
    page.click("th a:has-text('query')")
    page.wait_for_url("**sort=text*")
    texts = page.locator("td.key a").all_inner_texts()
    assert page.get_attribute("th:has(a:has-text('query'))", "aria-sort") == "ascending"
    page.click("th a:has-text('query')")
    page.wait_for_url("**order=falling*")
    assert page.locator("td.key a").all_inner_texts()[0] != texts[0]
    page.fill("#match", "*garden*")
    page.keyboard.press("Enter")
    page.wait_for_url("**match=*garden*")
    assert all("garden" in text for text in page.locator("td.key a").all_inner_texts())
    page.goto(page.url.split("/top")[0] + "/top")
    page.click("nav.pages a[rel=next]")
    page.wait_for_url("**page=2*")
    assert page.inner_text("tbody tr >> nth=0").split()[0] == "51"
    with page.expect_download() as wanted:
        page.click("a:has-text('CSV')")
    assert wanted.value.suggested_filename == "query.csv"
    assert Path(wanted.value.path()).read_text().startswith("query,users")


def test_verify_runs_live(open_page):
    page = open_page().open("/privacy")
    assert page.inner_text("[data-verify-status]") == "All claims hold."
    page.click("text=Check again")
    page.wait_for_selector("text=All claims hold.")
    assert page.locator("[data-verify-list] li.ok").count() == 8


def test_hostile_texts_do_nothing(open_page):
    watched = open_page()
    for text in sample_bundles.HOSTILE:
        page = watched.open("/?q=" + quote(text))
        assert page.inner_text(".kicker").lower() == "a published query"
        query = normalise(text)
        if len(query) <= 160:
            assert page.inner_text("h1") == query
        assert page.locator("main img, main iframe, main style").count() == 0
    page = watched.open("/")
    page.locator("#q").press_sequentially("<scr", delay=30)
    page.wait_for_selector("#completions li")
    assert names(page) == ["<script>alert(1)</script>"]
    # Text that runs from right to left keeps to its own cell.
    page = watched.open("/top?match=" + quote("\u05e9"))
    assert page.locator("td.key bdi").count() >= 1


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["desk", "phone", "dark"])
def test_every_view_fits_and_can_be_read(open_page, view, kind):
    sizes = {"desk": (1280, 900), "phone": (360, 740), "dark": (1280, 900)}
    width, height = sizes[kind]
    watched = open_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if kind == "dark" else "light",
        has_touch=kind == "phone",
    )
    page = watched.open(VIEWS[view])
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, re.findall(r"\d+", ground)[:3])) / 3
    assert (lightness < 60) == (kind == "dark")
    import axe_playwright_python

    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    listed = [
        f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:120]}"
        for each in found
        for node in each["nodes"]
        if each["impact"] in SERIOUS
    ]
    assert listed == []


def test_everything_works_without_script(open_page):
    page = open_page(java_script_enabled=False).open("/?q=weather")
    assert page.inner_text("h1") == "weather"
    page.goto(page.url.split("/?")[0] + "/privacy")
    page.click("text=Check again")
    assert page.inner_text("[data-verify-status]") == "All claims hold."

"""The site of the documents builds without a warning, and reading and searching it needs no network."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*>")
ELSEWHERE = re.compile(r"""(?:src|href|data)=["']?(?:https?:)?//""")
STYLE_ELSEWHERE = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_what_a_page_loads_from_elsewhere_is_found():
    tags = LOADED.findall('<link href="https://a/b.css"><a href="https://a/"><script src=//a/b.js>')
    assert len([tag for tag in tags if ELSEWHERE.search(tag)]) == 2
    assert STYLE_ELSEWHERE.search("src: url('https://a/b.woff2')")
    assert not STYLE_ELSEWHERE.search("src: url(data:image/svg+xml)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    if find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed: make docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(site):
    pages = sorted((ROOT / "docs").rglob("*.md"))
    for page in pages:
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not [tag for tag in LOADED.findall(text) if ELSEWHERE.search(tag)], page
        assert not STYLE_ELSEWHERE.search(text), page
    for style in site.rglob("*.css"):
        assert not STYLE_ELSEWHERE.search(style.read_text(encoding="utf-8")), style


@pytest.mark.slow
def test_what_the_search_needs_from_disk_are_scripts(site):
    """A browser neither fetches a file nor starts a worker from disk, but it loads scripts."""
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = {")
    assert "sensitivity" in index
    page = (site / "how-to" / "audit.html").read_text(encoding="utf-8")
    assert '<script src="../javascripts/iframe-worker.js">' in page


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_search_works_from_disk(site, tmp_path):
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"{(site / 'how-to' / 'audit.html').as_uri()}?q=threshold",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (said,) = re.findall(r'class="md-search-result__meta">\s*([^<]*?)\s*<', done.stdout)
    assert re.fullmatch(r"\d+ matching documents", said)

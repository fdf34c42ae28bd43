"""The site of the documents builds without a warning, and reading it needs no network."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*>")
ELSEWHERE = re.compile(r"""(?:src|href|data)=["']?(?:https?:)?//""")
STYLE_ELSEWHERE = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")


def test_what_a_page_loads_from_elsewhere_is_found():
    found = LOADED.findall(
        '<link href="https://a/b.css"><a href="https://a/"><script src=//a/b.js>'
    )
    assert len([tag for tag in found if ELSEWHERE.search(tag)]) == 2
    assert STYLE_ELSEWHERE.search("src: url('https://a/b.woff2')")
    assert not STYLE_ELSEWHERE.search("src: url(data:image/svg+xml)")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="MkDocs is not installed: make docs")
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted((ROOT / "docs").rglob("*.md"))
    for page in pages:
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not [tag for tag in LOADED.findall(text) if ELSEWHERE.search(tag)], page
        assert not STYLE_ELSEWHERE.search(text), page
    for style in site.rglob("*.css"):
        assert not STYLE_ELSEWHERE.search(style.read_text(encoding="utf-8")), style

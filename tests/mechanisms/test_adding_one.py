"""Adding a mechanism with an option: one source file, one line in the registry, and docs/options.py run.

In a temporary copy of the package: flags, help, settings, checks, the page of options and the audit's
lists all follow from the declaration. (A docs page, an exact law and a broken twin come with it.)
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
TOY = '''"""A toy: threshold, with an option that raises the threshold."""

from dataclasses import dataclass
from typing import ClassVar, Self

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import Option
from murmurlog.mechanisms.threshold import Threshold
from murmurlog.privacy import Loss


@dataclass(frozen=True, kw_only=True)
class Toy(Threshold):
    """As threshold, but an item needs `lift` users more."""

    name: ClassVar[str] = "toy"
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="lift", help="Users that an item needs beyond the threshold.", read=integer),
    )

    @classmethod
    def solve(cls, *, lift: int = 0, **asked: object) -> Self:
        """The parameters of threshold, with a higher T."""
        made = Threshold.solve(**asked)
        return cls(noise=made.noise, d=made.d, scale=made.scale, T=made.T + lift)

    @classmethod
    def for_loss(cls, loss: Loss, *, lift: int = 0, **asked: object) -> Self:
        """The same, for a part of an account that several tables share."""
        made = Threshold.for_loss(loss, **asked)
        return cls(noise=made.noise, d=made.d, scale=made.scale, T=made.T + lift)
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the package with the toy in it: two files differ, and what docs/options.py writes."""
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "docs" / "reference").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "options.py", root / "docs")
    mechanisms = root / "src" / "murmurlog" / "mechanisms"
    (mechanisms / "toy.py").write_text(TOY)
    registry = mechanisms / "__init__.py"
    text = registry.read_text()
    line = "    Threshold,\n    Korolova,\n"
    assert text.count(line) == 1
    text = text.replace(line, "    Threshold,\n    Toy,\n    Korolova,\n")
    registry.write_text(
        text.replace("\nREGISTERED", "\nfrom murmurlog.mechanisms.toy import Toy\n\nREGISTERED")
    )
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    subprocess.run([sys.executable, root / "docs" / "options.py"], env=environment, check=True)
    run(root, "generate", "--rows", "20000", "--out", "log.parquet")
    return root


def run(tree, *arguments, code=0):
    """The command line of the copy."""
    done = subprocess.run(
        [sys.executable, "-c", "from murmurlog.cli.main import main; main()", *arguments],
        cwd=tree, env=os.environ | {"PYTHONPATH": str(tree / "src")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_its_flag_is_in_the_help_and_works(tree):
    assert "--lift" in run(tree, "release", "--help-all")
    assert "Users that an item needs beyond" in run(tree, "help", "toy")
    low, high = (
        run(tree, "plan", "--mechanism", "toy", "--noise", "geometric", "--lift", lift)
        for lift in ("0", "7")
    )
    threshold = [int(text.split("T=")[1].split(")")[0]) for text in (low, high)]
    assert threshold[1] - threshold[0] == 7
    run(tree, "release", "log.parquet", "--mechanism", "toy", "--lift", "2", "--out", "b")
    assert "FAILED" not in run(tree, "verify", "b")


def test_its_option_is_a_setting_and_others_refuse_it(tree):
    (tree / "murmurlog.toml").write_text('[release]\nmechanism = "toy"\nlift = 3\n')
    assert "toy(" in run(tree, "release", "log.parquet", "--out", "c")
    (tree / "murmurlog.toml").unlink()
    output = run(tree, "release", "log.parquet", "--lift", "2", "--out", "d", code=2)
    assert "--lift is for toy; rounds does not take it" in output
    assert "--lift: 'x' is no whole number" in run(
        tree, "release", "log.parquet", "--mechanism", "toy", "--lift", "x", "--out", "d", code=2
    )


def test_the_page_of_options_and_the_audit_know_it(tree):
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    subprocess.run([sys.executable, str(tree / "docs" / "options.py")], env=environment, check=True)
    page = (tree / "docs" / "reference" / "mechanism-options.md").read_text()
    assert "| `--lift` | [toy](../explanation/mechanisms/toy.md) |" in page
    code = "from murmurlog.auditing.settings import standard_settings; print(*(s.name for s in standard_settings('toy')))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "large delta, three items a user" in done.stdout

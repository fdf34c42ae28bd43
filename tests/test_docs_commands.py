"""Every command of the documents runs as written and gives what its page says; docs/commands.py shows the table."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = spec_from_file_location("doc_commands", ROOT / "docs" / "commands.py")
script = sys.modules[SPEC.name] = module_from_spec(SPEC)
SPEC.loader.exec_module(script)
PAGES = [page for page in script.pages() if list(script.commands(page))]


def page_of(tmp_path, monkeypatch, text):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    return [(each.text, each.code) for each in script.commands(tmp_path / "page.md")]


def test_commands_are_found_in_every_form_and_forms_are_not(tmp_path, monkeypatch):
    text = """
Text `murmurlog verify bundle` and `murmurlog generate --rows 5` and `murmurlog plan`.

    murmurlog release log.parquet --epsilon 'ln(10)'
    python -m papers korolova
    python -m papers [PAPER]

```sh
# a comment
murmurlog plan --users 300 \\
    --out plan.toml
murmurlog release SOURCE [flags]
```

<!-- exit 3 -->
```console
$ murmurlog release log.parquet
$ python -c "print('X')"
```
murmurlog is no command here
"""
    assert page_of(tmp_path, monkeypatch, text) == [
        ("murmurlog verify bundle", 0),
        ("murmurlog release log.parquet --epsilon 'ln(10)'", 0),
        ("python -m papers korolova", 0),
        ("murmurlog plan --users 300 --out plan.toml", 0),
        ("murmurlog release log.parquet", 3),
        ("python -c \"print('X')\"", 3),
    ]


def test_a_wrong_exit_code_and_a_release_of_nothing_fail():
    asked = script.Command(page="page.md", text="murmurlog release log.parquet")
    assert script.Outcome(command=asked, code=2).failed
    assert script.Outcome(command=asked, code=0, rows={"query": 3, "click": 0}).failed
    assert not script.Outcome(command=asked, code=0, rows={"query": 3}).failed
    assert not script.Outcome(command=asked, code=None, said="needs Spark").failed
    assert "| 3 query |" in script.line(script.Outcome(command=asked, code=0, rows={"query": 3}))


def test_most_commands_are_run():
    found = [command for page in PAGES for command in script.commands(page)]
    left = [c for c in found if any(c.text.startswith(start) for start in script.NOT_RUN)]
    assert len(found) > 100
    assert len(left) < 10


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return script.make_logs(tmp_path_factory.mktemp("logs"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_run_as_written(page, logs):
    outcomes = list(script.run_page(page, logs))
    print("\n".join(map(script.line, outcomes)))
    assert not [f"{script.line(each)}\n{each.said}" for each in outcomes if each.failed]

"""Completion in real shells, and that what is completed is what the commands take."""

import os
import shutil
import subprocess

import pytest
from command import run
from terminal import MAIN, Terminal

from murmurlog.bundle.export import WRITERS
from murmurlog.bundle.schema import KEYS
from murmurlog.cli.completion import VALUES, complete_value
from murmurlog.evaluation.tasks import TASKS
from murmurlog.logs.formats import SHAPES
from murmurlog.mechanisms import MECHANISMS

CASES = {
    "murmurlog relea": "release",
    "murmurlog release x.csv --eng": "--engine",
    "murmurlog release x.csv --engine du": "duckdb",
    "murmurlog release x.csv --tables query,cl": "query,click",
    "murmurlog release x.csv --mechanism synth": "synthetic",
    "murmurlog release x.csv --shape so": "sogou",
    "murmurlog release x.csv --count-sh": "--count-share",
    "murmurlog ledger sho": "show",
    "murmurlog help roun": "rounds",
}


@pytest.fixture(scope="module")
def shims(tmp_path_factory):
    """A folder with the command, for PATH."""
    folder = tmp_path_factory.mktemp("bin")
    quoted = f"'{MAIN[0]}' -c '{MAIN[2]}'"
    (folder / "murmurlog").write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
    (folder / "murmurlog").chmod(0o755)
    return folder


def needs(shell):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} on this machine")


def run_in_shell(shims, shell, script):
    needs(shell)
    path = f"{shims}:{os.environ['PATH']}"
    done = subprocess.run(
        [shell, "-c", script], env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


BASH = """
eval "$(murmurlog completion bash)"
try() {
  COMP_WORDS=($1); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMPREPLY=()
  _murmurlog_completion murmurlog
  echo "${COMPREPLY[*]}"
}
"""


def bash(shims, cases):
    lines = run_in_shell(shims, "bash", BASH + "".join(f"try '{line}'\n" for line in cases))
    assert lines == list(cases.values())


def test_bash_completes_commands_and_values(shims):
    bash(shims, dict(list(CASES.items())[:4:3]))


@pytest.mark.slow
def test_bash_completes_all_cases(shims):
    bash(shims, CASES)


@pytest.mark.slow
def test_fish_completes_all_cases(shims):
    script = "murmurlog completion fish | source\n"
    script += "".join(f"complete -C '{line}' | string split -f1 \\t\n" for line in CASES)
    script += "true\n"  # the status of `string split` is not about completion
    assert run_in_shell(shims, "fish", script) == list(CASES.values())


@pytest.mark.slow
def test_zsh_completes_all_cases(shims, tmp_path):
    needs("zsh")
    path = f"{shims}:{os.environ['PATH']}"
    shell = Terminal("zsh", "-f", "-i", cwd=tmp_path, PATH=path, PS1="> ", TERM="dumb")
    shell.type("autoload -Uz compinit; compinit -u -d dump; murmurlog completion zsh > s; ")
    shell.type("source ./s; echo lo''aded\n")
    assert "loaded" in shell.read(until="\nloaded")
    for line, value in CASES.items():
        start, _, word = line.rpartition(" ")
        shell.type(f"{line}\t")
        assert f"{value} " in shell.read(until=f"{value[len(word) - 1 :]} ", seconds=20), line
        shell.type("\x15")
    shell.type("exit\n")
    shell.read()
    assert shell.end() == 0


def test_values_are_those_that_commands_take():
    names = {flag: [*(v() if callable(v) else v)] for flag, v in VALUES.items()}
    assert names["--mechanism"] == list(MECHANISMS)
    assert set(names["--tables"]) == {*KEYS}
    assert set(names["--table"]) == {*KEYS} - {"left_out"}
    assert set(names["--tasks"]) == {*TASKS}
    assert set(names["--shape"]) == {*SHAPES}
    assert set(names["--to"]) >= {*WRITERS}


def test_a_list_is_completed_after_its_last_comma():
    assert complete_value("--tables", "query,ke") == ["query,keyword"]
    assert complete_value("--mechanism", "query=ro") == ["query=rounds"]
    assert complete_value("--out", "") == []


def test_another_shell_is_refused(tmp_path):
    done = run("completion", "tcsh", cwd=tmp_path)
    assert done.returncode == 2
    assert "no completion for 'tcsh': use bash, zsh, fish" in done.stderr

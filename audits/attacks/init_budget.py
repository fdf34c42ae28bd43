"""A new budget for every file: can an owner who takes each default spend the cap again each month?

    python audits/attacks/init_budget.py [--size 12]

One service, the same users in each month's file. The owner caps epsilon 3 in all, starts with `init` on the
first file, and then follows what each command proposes for the next files: `init --yes`, Enter at each
question, the default ledger of `series init`, a misspelled name for `ledger cap`, `series init` and
`init --source`. What all sources of all ledgers in the folder may spend together must stay the cap of
the first month; a command may refuse instead.

Measured before `init` proposed the source that the ledger has: 36 after twelve files.
"""

import builtins
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import murmurlog
from attacks.shared import Finding, main, run_command
from murmurlog.errors import MurmurlogError
from murmurlog.publishing.ledger import Ledger

CAP = 3.0  # epsilon, which `init` sets
USERS = 200
LATER = ("--epsilon", "3", "--delta", "1e-5")


def write_months(folder: Path, months: int) -> list[Path]:
    """The same users in a file for each month."""
    folder.mkdir()
    files = []
    for number in range(months):
        month = f"{2025 + number // 12}-{number % 12 + 1:02}"
        rows = [f"u{user},{month}-03 10:00:00,weather" for user in range(USERS)]
        files.append(folder / f"{month}.csv")
        files[-1].write_text("user,time,query\n" + "\n".join(rows) + "\n")
    return files


def promised(folder: Path) -> float:
    """The epsilon that all sources of all ledgers may spend on one user."""
    accounts = [each for path in folder.glob("*.db") for each in Ledger(path).accounts()]
    return sum(account.epsilon_cap or 0.0 for account in accounts)


def with_yes(files: list[Path]) -> list[int]:
    """`init --yes` on one file after the other."""
    flags = ("--yes", "--force")
    return [run_command(("init", file.name, *flags), file.parent)[0] for file in files]


def with_enter(files: list[Path]) -> list[int]:
    """Enter at each question, from Python."""
    codes, ask = [], builtins.input
    builtins.input = lambda *_: ""
    try:
        for file in files:
            try:
                with redirect_stderr(StringIO()):
                    out = file.with_name("murmurlog.toml")
                    murmurlog.init(file, out=out, yes=False, force=True)
                codes.append(0)
            except MurmurlogError as error:
                codes.append(error.exit_code)
    finally:
        builtins.input = ask
    return codes


def with_new_settings(files: list[Path]) -> list[int]:
    """`init --yes` with a file of settings for each log, beside the others."""
    return [
        run_command(("init", file.name, "--yes", "--out", f"{file.stem}.toml"), file.parent)[0]
        for file in files
    ]


def with_other_names(files: list[Path]) -> list[int]:
    """After the first `init`, each command that could open a source for a name that is not known."""
    folder, name = files[0].parent, files[0].stem
    typo = name[:-2] + name[:-3:-1]
    series = ("series", "init", "s.toml", "--logs", "{period}.csv", "--reason", "x", *LATER)
    commands = (
        ("init", files[0].name, "--yes"),
        ("init", files[-1].name, "--yes", "--force", "--source", typo),
        ("ledger", "cap", typo, *LATER, "--ledger", "murmurlog-ledger.db"),
        (*series, "--source", typo),
        (*series, "--source", "monthly"),
        ("release", files[-1].name, "--ledger", "murmurlog-ledger.db", "--source", typo),
    )
    return [run_command(command, folder)[0] for command in commands]


WAYS = {
    "init --yes": with_yes,
    "Enter at each question": with_enter,
    "settings for each log": with_new_settings,
    "other names": with_other_names,
}


def attack(folder: Path, months: int) -> Iterator[Finding]:
    for number, (name, way) in enumerate(WAYS.items()):
        files = write_months(folder / str(number), months)
        codes = way(files)
        total = promised(files[0].parent)
        text = f"{name}: a user of {months} files is promised epsilon {total:g} of {CAP:g}"
        if codes[0]:
            yield Finding(word="BROKEN", text=f"{name}: the first command ends with {codes[0]}")
        else:
            yield Finding(word="HOLDS" if total == CAP else "BROKEN", text=text)


if __name__ == "__main__":
    sys.exit(main(attack, size=12, meaning="files, each of one month"))

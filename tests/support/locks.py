"""Reads the locks, and lists what an environment that is installed from them would lack.

    python tests/support/locks.py PYTHON

writes `requirements.json`, the metadata of every package that a lock pins, with the pip of PYTHON
(24.1 or newer). `make lock` runs it. A pin's metadata never changes: what the file has is not asked again.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypedDict

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

# The locks that the Makefile installs into one environment.
ENVIRONMENTS = {
    "run": ("run",),
    "dev": ("run", "dev"),
    "spark": ("run", "dev", "spark"),
    "browser": ("run", "dev", "browser"),
    "docs": ("run", "docs"),
    "test-all": ("run", "dev", "spark", "browser", "docs"),
    "moto": ("moto",),
    "lock": ("lock",),
}
LOCKS = sorted({lock for locks in ENVIRONMENTS.values() for lock in locks})
# The first release of each Python: a package may ask for 3.11.5.
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")
MACHINES = (
    ("linux", "Linux", "x86_64"),
    ("linux", "Linux", "aarch64"),
    ("darwin", "Darwin", "arm64"),
    ("darwin", "Darwin", "x86_64"),
)


class Metadata(TypedDict):
    requires_python: str
    requires_dist: list[str]
    provides_extra: list[str]


class Need(NamedTuple):
    source: str
    requirement: Requirement


# The same lines are read for every Python and machine.
parse = cache(Requirement)


def lock_path(lock: str, root: Path = ROOT) -> Path:
    return root / ("requirements.txt" if lock == "run" else f"requirements-{lock}.txt")


def read_pins(lock: str, root: Path = ROOT) -> list[Requirement]:
    lines = re.findall(r"^[^\s#].*?(?= \\$)", lock_path(lock, root).read_text(), re.MULTILINE)
    return [parse(line) for line in lines]


def read_metadata(root: Path = ROOT) -> dict[str, Metadata]:
    path = root / "requirements.json"
    return json.loads(path.read_text()) if path.exists() else {}


def read_roots(lock: str, root: Path = ROOT) -> list[Need]:
    """What pyproject.toml asks of a lock."""
    file = tomllib.loads((root / "pyproject.toml").read_text())
    groups, extras = file["dependency-groups"], file["project"]["optional-dependencies"]
    lines = {
        "run": [
            *file["project"]["dependencies"],
            *file["build-system"]["requires"],
            *groups["build"],
        ],
        "dev": [*groups["dev"], *extras["postgres"]],
        "spark": extras["spark"],
    }.get(lock) or groups[lock]
    return [Need("pyproject.toml", parse(line)) for line in lines]


def marker_environments() -> Iterator[tuple[str, dict[str, str]]]:
    """Every Python on every machine that is supported, with its name."""
    for python in PYTHONS:
        version = python.rpartition(".")[0]
        for platform, system, machine in MACHINES:
            yield (
                f"Python {python} on {system} {machine}",
                {
                    "implementation_name": "cpython",
                    "implementation_version": python,
                    "os_name": "posix",
                    "platform_machine": machine,
                    "platform_python_implementation": "CPython",
                    "platform_release": "",
                    "platform_system": system,
                    "platform_version": "",
                    "python_full_version": python,
                    "python_version": version,
                    "sys_platform": platform,
                },
            )


def applies(requirement: Requirement, variables: dict[str, str], extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate(variables | {"extra": extra})


def version_of(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    return specifier.version


def pin_key(pin: Requirement) -> str:
    """How requirements.json names a pin."""
    return f"{canonicalize_name(pin.name)}=={version_of(pin)}"


def gaps(
    locks: Sequence[str],
    variables: dict[str, str],
    metadata: dict[str, Metadata],
    root: Path = ROOT,
) -> list[str]:
    """What an environment of these locks would lack, a sentence each."""
    faults: list[str] = []
    versions: dict[str, str] = {}
    for lock in locks:
        for pin in read_pins(lock, root):
            name, version = canonicalize_name(pin.name), version_of(pin)
            if applies(pin, variables) and versions.setdefault(name, version) != version:
                faults.append(f"{lock} pins {name} {version}, another lock {versions[name]}")

    needs = [need for lock in locks for need in read_roots(lock, root)]
    # A package and one of its extras; "" is the package itself.
    tasks = [(name, "") for name in versions]
    seen = set(tasks)
    while needs or tasks:
        while needs:
            source, requirement = needs.pop()
            name = canonicalize_name(requirement.name)
            if name not in versions:
                faults.append(f"{source} needs {requirement}, which no lock pins")
                continue
            if not requirement.specifier.contains(versions[name], prereleases=True):
                faults.append(f"{source} needs {requirement}, the lock pins {versions[name]}")
            for extra in map(canonicalize_name, requirement.extras):
                if (name, extra) not in seen:
                    seen.add((name, extra))
                    tasks.append((name, extra))
        if tasks:
            name, extra = tasks.pop()
            key = f"{name}=={versions[name]}"
            if key not in metadata:
                faults.append(f"requirements.json has no {key}: run make lock")
                continue
            fields = metadata[key]
            if extra and extra not in map(canonicalize_name, fields["provides_extra"]):
                faults.append(f"{key} has no extra {extra}")
            python = SpecifierSet(fields["requires_python"])
            if not extra and not python.contains(variables["python_full_version"]):
                faults.append(f"{key} needs Python {python}")
            needs = [
                Need(f"{name}[{extra}]" if extra else name, requirement)
                for requirement in map(parse, fields["requires_dist"])
                if applies(requirement, variables, extra)
            ]
    return faults


def write_metadata(python: str) -> None:
    metadata = read_metadata()
    # One lock at a time: two of them may pin two versions of a package.
    for lock in LOCKS:
        if missing := [pin for pin in map(pin_key, read_pins(lock)) if pin not in metadata]:
            metadata |= ask_metadata(python, missing)
    pins = {pin_key(pin) for lock in LOCKS for pin in read_pins(lock)}
    selection = {pin: metadata[pin] for pin in sorted(pins)}
    (ROOT / "requirements.json").write_text(json.dumps(selection, indent=1) + "\n")


def ask_metadata(python: str, pins: list[str]) -> dict[str, Metadata]:
    """Asks the index. Pins for another Python are asked too, so what they need of it is ignored."""
    command = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-"]
    command += ["--no-deps", "--ignore-installed", "--ignore-requires-python", *pins]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = [package["metadata"] for package in report["install"]]
    return {
        f"{canonicalize_name(package['name'])}=={package['version']}": {
            "requires_python": package.get("requires_python", ""),
            "requires_dist": package.get("requires_dist", []),
            "provides_extra": package.get("provides_extra", []),
        }
        for package in packages
    }


if __name__ == "__main__":
    write_metadata(sys.argv[1])

"""The locks are complete: an installation from them resolves nothing."""

import re
import shutil
from importlib.metadata import distributions
from pathlib import Path

import pytest
from locks import (
    ENVIRONMENTS,
    LOCKS,
    ROOT,
    gaps,
    lock_path,
    marker_environments,
    pin_key,
    read_metadata,
    read_pins,
)
from packaging.utils import canonicalize_name

METADATA = read_metadata()
MARKERS = dict(marker_environments())
OLDEST, NEXT = (MARKERS[f"Python {python} on Linux x86_64"] for python in ("3.11.0", "3.12.0"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the locks, to be spoilt."""
    for path in (ROOT / "pyproject.toml", *map(lock_path, LOCKS)):
        shutil.copy(path, tmp_path)
    return tmp_path


def edit(lock: str, root: Path, pin: str, replacement: str) -> None:
    path = lock_path(lock, root)
    text = path.read_text()
    assert f"\n{pin} " in text
    path.write_text(text.replace(f"\n{pin} ", f"\n{replacement} "))


def pin_of(name: str) -> str:
    (key,) = (key for key in METADATA if key.startswith(f"{name}=="))
    return key


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_lock_pins_whatever_its_packages_need(environment):
    for machine, variables in MARKERS.items():
        assert gaps(ENVIRONMENTS[environment], variables, METADATA) == [], machine


def test_a_missing_pin_is_named(root):
    edit("dev", root, pin_of("zipp"), "# zipp")
    assert gaps(ENVIRONMENTS["dev"], OLDEST, METADATA, root) == [
        'etils[epath] needs zipp; extra == "epath", which no lock pins'
    ]


def test_a_pin_counts_only_where_its_marker_holds(root):
    pin = pin_of("zipp")
    edit("dev", root, pin, f"{pin} ; python_version >= '3.12'")
    assert len(gaps(ENVIRONMENTS["dev"], OLDEST, METADATA, root)) == 1
    assert gaps(ENVIRONMENTS["dev"], NEXT, METADATA, root) == []


def test_a_pin_outside_the_range_of_the_project_is_named(root):
    edit("run", root, pin_of("click"), "click==9.0.0")
    metadata = METADATA | {"click==9.0.0": METADATA[pin_of("click")]}
    assert gaps(ENVIRONMENTS["run"], OLDEST, metadata, root) == [
        "pyproject.toml needs click<9,>=8.5, the lock pins 9.0.0"
    ]


def test_a_pin_without_metadata_is_named(root):
    edit("run", root, pin_of("click"), "click==8.9.9")
    assert gaps(ENVIRONMENTS["run"], OLDEST, METADATA, root) == [
        "requirements.json has no click==8.9.9: run make lock"
    ]


def test_two_locks_of_one_environment_pin_one_version(root):
    pin = pin_of("click")
    edit("docs", root, pin, "click==8.0.0")
    version = pin.partition("==")[2]
    assert gaps(ENVIRONMENTS["docs"], OLDEST, METADATA, root) == [
        f"docs pins click 8.0.0, another lock {version}"
    ]


def test_a_pin_for_a_later_python_is_named():
    pin = pin_of("zipp")
    metadata = METADATA | {pin: METADATA[pin] | {"requires_python": ">=3.11.5"}}
    assert gaps(ENVIRONMENTS["dev"], OLDEST, metadata) == [f"{pin} needs Python >=3.11.5"]
    assert gaps(ENVIRONMENTS["dev"], NEXT, metadata) == []


def test_an_extra_that_a_pin_does_not_have_is_named():
    pin = pin_of("etils")
    metadata = METADATA | {pin: METADATA[pin] | {"provides_extra": []}}
    assert f"{pin} has no extra epath" in gaps(ENVIRONMENTS["dev"], OLDEST, metadata)


def test_the_metadata_is_that_of_the_pins():
    assert set(METADATA) == {pin_key(pin) for lock in LOCKS for pin in read_pins(lock)}


def test_the_metadata_is_that_of_the_installed_packages():
    installed = {
        f"{canonicalize_name(package.name)}=={package.version}": package
        for package in distributions()
    }
    pins = METADATA.keys() & installed.keys()
    assert pin_of("packaging") in pins
    for pin in sorted(pins):
        fields = installed[pin].metadata
        assert METADATA[pin] == {
            "requires_python": fields.get("Requires-Python", ""),
            "requires_dist": fields.get_all("Requires-Dist", []),
            "provides_extra": fields.get_all("Provides-Extra", []),
        }, pin


def test_the_makefile_installs_every_lock_and_resolves_nothing():
    makefile = (ROOT / "Makefile").read_text()
    (command,) = re.findall(r"^INSTALL := .*", makefile, re.MULTILINE)
    assert command.endswith(" install --no-deps --no-build-isolation")
    assert makefile.count("-m pip") == 1
    installed = re.findall(r"/\$\(INSTALL\) --require-hashes -r (\S+)$", makefile, re.MULTILINE)
    assert sorted(installed) == sorted(path.name for path in ROOT.glob("requirements*.txt"))
    assert sorted(installed) == sorted(lock_path(lock).name for lock in LOCKS)


def test_the_locks_name_no_index_and_hash_everything():
    for path in map(lock_path, LOCKS):
        text = path.read_text()
        assert "--index" not in text
        assert "://" not in text
        hashed = re.findall(r"^\S+==\S+ (?:; .+ )?\\\n    --hash=sha256:", text, re.MULTILINE)
        assert len(hashed) == len(re.findall(r"^[a-zA-Z]", text, re.MULTILINE))

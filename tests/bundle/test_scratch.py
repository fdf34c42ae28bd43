"""Private folders are gone in the end, wherever Ctrl-C comes."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from murmurlog.bundle import scratch as module
from murmurlog.bundle.scratch import remove_rest, scratch, sweep


@pytest.fixture(autouse=True)
def _ctrl_c():
    """Tests that run in the background are started without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def outer(parent):
    """As an engine does: a folder inside of another context manager."""
    with scratch(parent) as folder:
        yield folder


def interrupted_at(n, parent):
    """Makes, fills and removes a folder with Ctrl-C at the nth step; returns whether it came that far."""
    steps = 0

    def step(frame, *_):
        nonlocal steps
        own = frame.f_code.co_name == "interrupted_at"  # the end of the test itself
        steps += not own
        if steps == n and not own:
            os.kill(os.getpid(), signal.SIGINT)

    sys.setprofile(step)
    try:
        with outer(parent) as folder:
            (folder / "inside").mkdir()
            (folder / "inside" / "rows").write_text("private")
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


# The test's own files are left open where it is interrupted.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
def test_no_step_at_which_ctrl_c_comes_leaves_a_folder(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    n = stopped = 0
    while n == stopped:  # the last one is not interrupted: it has fewer steps
        n += 1
        stopped += interrupted_at(n, tmp_path)
        remove_rest()
        assert not list(tmp_path.iterdir()), n
        assert not module._locks
        assert signal.getsignal(signal.SIGINT) is before
    assert stopped > 100


def test_ctrl_c_waits_while_a_folder_is_removed(tmp_path, monkeypatch):
    remove = module._remove

    def slow(folder):
        os.kill(os.getpid(), signal.SIGINT)
        remove(folder)

    monkeypatch.setattr(module, "_remove", slow)
    with pytest.raises(KeyboardInterrupt), scratch(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_ctrl_c_waits_while_python_tries_the_temporary_folder(tmp_path, monkeypatch):
    def try_out():
        (tmp_path / "tried").touch()
        os.kill(os.getpid(), signal.SIGINT)
        (tmp_path / "tried").unlink()
        return str(tmp_path)

    monkeypatch.setattr(module.tempfile, "gettempdir", try_out)
    with pytest.raises(KeyboardInterrupt), scratch():
        pass
    assert not list(tmp_path.iterdir())


def test_a_process_that_ends_removes_the_rest(tmp_path):
    code = "import sys; from pathlib import Path; from murmurlog.bundle.scratch import scratch\n"
    code += (
        "kept = scratch(Path(sys.argv[1])); kept.__enter__(); print(*Path(sys.argv[1]).iterdir())"
    )
    code += "\nimport builtins; builtins.kept = kept"  # nothing closes it before the end
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ".murmurlog-" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_forked_process_leaves_the_folders_of_its_parent(tmp_path):
    with scratch(tmp_path) as folder:
        if (child := os.fork()) == 0:
            remove_rest()
            os._exit(0)
        os.waitpid(child, 0)
        assert folder.exists()
        assert sweep(tmp_path) == []

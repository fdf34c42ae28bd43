"""A command in a terminal of its own, answered as a person would: after its questions."""

import os
import select
import signal
import subprocess
import sys

SECONDS = 120  # until a question must have appeared
MURMURLOG = (sys.executable, "-c", "from murmurlog.cli.main import main; main()")


class InteractiveCommand:
    """`murmurlog ARGUMENTS` with a terminal for stdin and stderr."""

    def __init__(self, *arguments, cwd):
        self.terminal, inner = os.openpty()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MURMURLOG_")}
        self.process = subprocess.Popen(
            [*MURMURLOG, *map(str, arguments)],
            cwd=cwd,
            env=kept | {"TERM": "xterm", "COLUMNS": "200"},
            stdin=inner,
            stderr=inner,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        os.close(inner)
        self.seen = ""  # since the last answer
        self.all = ""

    def wait_for(self, text):
        """Reads until the terminal shows the text."""
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], SECONDS)
            assert ready, f"{text!r} did not appear after {self.seen!r}"
            try:
                piece = os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:  # the command ended
                piece = ""
            assert piece, f"{text!r} did not appear in {self.all!r}"
            self.seen += piece
            self.all += piece

    def answer(self, question, text=""):
        """Types an answer and Enter when the question is there."""
        self.wait_for(question)
        self.seen = ""
        os.write(self.terminal, f"{text}\n".encode())

    def interrupt(self, question):
        """Ctrl-C when the question is there."""
        self.wait_for(question)
        self.process.send_signal(signal.SIGINT)

    def end(self):
        """(exit code, stdout) when the command has ended; `all` then has the rest."""
        while True:
            try:
                piece = os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:
                break
            if not piece:
                break
            self.all += piece
        out, _ = self.process.communicate(timeout=SECONDS)
        os.close(self.terminal)
        return self.process.returncode, out

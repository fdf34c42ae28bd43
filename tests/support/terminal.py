"""A command in a real terminal (a pty): what it shows, and what is typed."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

MAIN = (sys.executable, "-c", "from murmurlog.cli.entry import main; main()")


class Terminal:
    """A process at a terminal of 100 columns and 40 lines."""

    def __init__(self, *command, cwd, **env):
        self.stream = b""
        self.process, self.handle = pty.fork()
        if self.process == 0:
            os.chdir(cwd)
            os.execvpe(command[0], list(command), {**os.environ, "TERM": "xterm", **env})
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))

    def type(self, text):
        os.write(self.handle, text.encode())

    def read(self, until=None, seconds=60):
        """What is shown until a text appears after everything read before, or until the end."""
        start, end = len(self.stream), time.monotonic() + seconds
        while time.monotonic() < end and not (until and until.encode() in self.stream[start:]):
            if select.select([self.handle], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.handle, 65536)
                except OSError:
                    break
                if not piece:
                    break
                self.stream += piece
        return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", self.stream[start:]).decode()

    def end(self):
        """The exit code."""
        os.close(self.handle)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

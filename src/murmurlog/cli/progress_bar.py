"""Progress on a terminal: a bar, what is done, rows per second, elapsed and remaining time."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from murmurlog.bundle.progress import Advance
from murmurlog.cli.output import harmless

REFRESHES = 4  # a second: drawing costs the same however fast rows are read
BAR = 18


class Stage:
    """The progress of a stage. Reporting adds to two numbers; the drawing thread reads them."""

    def __init__(self, *, text: str, total: float | None, unit: str) -> None:
        self.text, self.total, self.unit = harmless(text), total, unit
        self.done, self.rows = 0.0, 0.0
        self.began = time.monotonic()

    def advance(self, part: float = 1, *, rows: int | None = None) -> None:
        self.done += part
        self.rows += part if rows is None else rows

    def numbers(self, elapsed: float) -> str:
        """Such as `45%  1,200,000 rows  310,000 rows/s  0:04, 0:05 left`."""
        here = time.monotonic() - self.began
        words = []
        if self.total:
            words.append(f"{min(1.0, self.done / self.total):4.0%}")
        if self.rows:
            of = f" of {self.total:,.0f}" if self.total and self.rows == self.done else ""
            words.append(f"{self.rows:,.0f}{of} {self.unit}")
            if here > 0 and self.rows / here >= 10:
                words.append(f"{float(f'{self.rows / here:.3g}'):,.0f} {self.unit}/s")
        spent = _clock(elapsed)
        if self.total and 0 < self.done <= self.total:
            spent += f", {_clock(here * (self.total - self.done) / self.done)} left"
        return "  ".join([*words, spent])


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Bar(BarColumn):
    def render(self, task: Task) -> ProgressBar:
        stage: Stage = task.fields["stage"]
        return ProgressBar(
            total=stage.total,
            completed=min(stage.done, stage.total or 0),
            width=BAR,
            pulse=stage.total is None,
            animation_time=task.get_time(),
        )


class _Numbers(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(task.fields["stage"].numbers(task.fields["clock"]()), no_wrap=True)


class TerminalReporter:
    """Draws the current stage and, above it, the whole task if that is measured."""

    def __init__(self, console: Console) -> None:
        began = time.monotonic()
        self._clock = lambda: time.monotonic() - began
        self._tasks: dict[bool, TaskID] = {}
        self._stage = Stage(text="starting", total=None, unit="")
        text = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self.drawing = Progress(
            TextColumn("{task.description}", markup=False, table_column=text),
            _Bar(),
            _Numbers(),
            console=console,
            transient=True,
            refresh_per_second=REFRESHES,
            expand=True,
        )

    def __call__(self, text: str) -> None:
        """Begins a stage; a warning is a line that stays."""
        if text.startswith("warning: "):
            self.drawing.console.print(harmless(text), markup=False, highlight=False)
            return
        self.drawing.refresh()  # the last numbers of the stage before, however short it was
        self._stage = Stage(text=text, total=None, unit="")
        self._draw(self._stage, False)

    def measure(self, *, total: float | None, unit: str) -> Advance:
        """Measures the current stage."""
        self._stage.total, self._stage.unit = total, unit
        return self._stage.advance

    def measure_all(self, text: str, *, total: float | None, unit: str) -> Advance:
        """Measures the whole task, in a line of its own."""
        stage = Stage(text=text, total=total, unit=unit)
        self._draw(stage, True)
        return stage.advance

    def _draw(self, stage: Stage, whole: bool) -> None:
        if (before := self._tasks.pop(whole, None)) is not None:
            self.drawing.remove_task(before)
        self._tasks[whole] = self.drawing.add_task(stage.text, stage=stage, clock=self._clock)

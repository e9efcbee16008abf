"""Progress of a long job."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, TextIO

from keras_bert_impl.utils.errors import printable

if TYPE_CHECKING:
    import rich.progress

_SHORT = 2.0  # seconds; shorter jobs do not print a line
_SECONDS_BETWEEN = 10.0  # seconds between two lines in a pipe


class Progress:
    """Shows the progress of a long job, its rate and the remaining time."""

    def __init__(
        self,
        label: str,
        total: int | None = None,
        unit: str = "",
        stream: TextIO | None = None,
        done: int = 0,
        at_once: bool = True,
    ) -> None:
        self.label = label
        self._total, self._unit = total, unit
        self._stream = stream or sys.stderr
        self._begun_at = self._done = done
        self._printed: int | None = None  # number of finished units in the last printed line
        self._start = self._last = time.monotonic()
        self._note = ""
        self._at_once = at_once
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> Progress:
        if self._at_once and self._stream.isatty():
            self._show_bar()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._bar is not None:
            self._draw()
            if kind is None and not self._unit:
                self._bar.update(self._task, total=1, completed=1)
            self._bar.stop()
        elif kind is None and time.monotonic() - self._start >= _SHORT:
            if not self._unit or self._done != self._printed:
                self._print_line()

    def update(self, done: int, note: str = "") -> None:
        self._done, self._note = done, note
        now = time.monotonic()
        if self._bar is None and now - self._start >= _SHORT and self._stream.isatty():
            self._show_bar()
        seconds = now - self._last
        if seconds >= (0.1 if self._bar is not None else _SECONDS_BETWEEN):
            self._last = now
            if self._bar is not None:
                self._draw()
            else:
                self._print_line()

    def say(self, line: str) -> None:
        """Prints a line above the bar."""
        if self._bar is not None:
            self._bar.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
        else:
            print_message(line, self._stream)

    def _show_bar(self):
        self._bar = _make_bar(self._stream, self._state)
        self._task = self._bar.add_task(printable(self.label), total=self._total)
        self._bar.start()

    def _draw(self):
        self._bar.update(self._task, description=printable(self.label), completed=self._done)

    def _print_line(self):
        self._printed = self._done
        self.say(f"{self.label}: {self._state()}")

    def _state(self):
        """Returns a text such as `3 of 10 files, 0:00:06, 0.5/s, 0:00:14 left`."""
        seconds = time.monotonic() - self._start
        if not self._unit:
            return clock(seconds)
        rate = (self._done - self._begun_at) / seconds if seconds else 0.0
        total = "" if self._total is None else f" of {self._total:,}"
        is_one = (self._done if self._total is None else self._total) == 1
        unit = self._unit.removesuffix("s") if is_one else self._unit
        parts = [f"{self._done:,}{total} {unit}".rstrip(), clock(seconds)]
        if rate:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s")
            if self._total is not None and self._done < self._total:
                parts.append(f"{clock((self._total - self._done) / rate)} left")
        return ", ".join([*parts, self._note] if self._note else parts)


def print_message(line: object, stream: TextIO) -> None:
    """Prints a line to stderr. If nothing can be written there, the job continues without lines."""
    try:
        print(printable(str(line)), file=stream, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def clock(seconds: float) -> str:
    """Formats seconds as `0:01:30`."""
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{remainder:02}"


def _make_bar(stream, state):
    """Returns a `rich` progress bar that shows the text returned by `state()`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class State(ProgressColumn):
        def render(self, task: object) -> Text:
            return Text(printable(state()))

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        State(),
        console=Console(file=stream),
        redirect_stdout=False,  # stderr is used because results are written to stdout.
    )

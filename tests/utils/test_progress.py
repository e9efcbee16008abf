"""Progress of long jobs: a bar on a terminal, timed lines in a pipe."""

import io
import re
import time

import pytest

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.progress import Progress, clock, print_message


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def seconds(monkeypatch):
    """A clock set by hand, as a list of one number."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_short_jobs_print_nothing_in_a_pipe(seconds):
    stream = io.StringIO()
    with Progress("reading", total=2, unit="files", stream=stream) as progress:
        seconds[0] += 1.9
        progress.update(2)
    assert stream.getvalue() == ""


def test_lines_in_a_pipe_have_rate_and_time_left(seconds):
    stream = io.StringIO()
    with Progress("reading", total=2000, unit="files", stream=stream, done=400) as progress:
        for count in range(401, 2001):
            seconds[0] += 0.02 + 1e-9
            progress.update(count)
    assert stream.getvalue().splitlines() == [
        "reading: 900 of 2,000 files, 0:00:10, 50/s, 0:00:22 left",
        "reading: 1,400 of 2,000 files, 0:00:20, 50/s, 0:00:12 left",
        "reading: 1,900 of 2,000 files, 0:00:30, 50/s, 0:00:02 left",
        "reading: 2,000 of 2,000 files, 0:00:32, 50/s",
    ]


def test_a_line_is_printed_once(seconds):
    stream = io.StringIO()
    with Progress("reading", total=2, unit="files", stream=stream) as progress:
        seconds[0] += 10
        progress.update(2)
    assert stream.getvalue() == "reading: 2 of 2 files, 0:00:10, 0.2/s\n"


def test_a_failed_job_prints_no_last_line(seconds):
    stream = io.StringIO()
    with pytest.raises(KeyError), Progress("reading", unit="files", stream=stream) as progress:
        seconds[0] += 9
        progress.update(3)
        raise KeyError
    assert stream.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with Progress("reading", total=10, unit="files", stream=stream) as progress:
        progress.update(5, "[b]now")
        progress.say("[b]a line, as it is")
        progress.label = "checking"
        progress.update(7)
    text = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "[b]a line, as it is\n" in text
    assert re.search("checking ━+.* 7 of 10 files, 0:00:00", text)


def test_names_cannot_control_the_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream, name = Terminal(), "\x1b]0;title\x07\u202e\x9b\r"
    print_message(name, stream)
    with Progress(name, total=1, unit="files", stream=stream) as progress:
        progress.update(1, name)
        progress.say(name)
    text = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert not set("\x1b\x07\u202e\x9b") & set(text)
    assert text.count("\\u001b]0;title\\u0007\\u202e\\u009b\\u000d") >= 3


def test_text_of_all_languages_is_printed_as_it_is():
    stream, text = (
        io.StringIO(),
        "caf\u00e9 \u0645\u0631\u062d\u0628\u0627 \u0928\u0947\u200d\u092a \U0001f468\u200d\U0001f469\ttab\nline",
    )
    print_message(text, stream)
    assert stream.getvalue() == f"{text}\n"
    assert str(InputError(f"{text}\x1b")) == f"{text}\\u001b"


def test_a_job_without_units_has_one_line(seconds):
    stream = io.StringIO()
    with Progress("writing the SavedModel", stream=stream):
        seconds[0] += 65
    assert stream.getvalue() == "writing the SavedModel: 0:01:05\n"


def test_a_bar_may_wait_for_two_seconds(seconds, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for now, is_shown in ((1.9, False), (2.1, True)):
        stream = Terminal()
        with Progress("reading", unit="rows", stream=stream, at_once=False) as progress:
            seconds[0] += now
            progress.update(9)
        assert ("9 rows" in stream.getvalue()) is is_shown


def test_clock():
    assert [clock(0.4), clock(61), clock(3600 * 30)] == ["0:00:00", "0:01:01", "30:00:00"]

"""Tables and progress output of commands."""

import io

from keras_bert_impl.cli import common


def test_table(capsys):
    rows = [{"name": "a", "count": 1234, "hidden": 0}, {"name": "bcd", "count": 5, "hidden": 0}]
    common.print_table(rows, {"name": "name", "count": "count"})
    assert capsys.readouterr().out == "name  count\na     1,234\nbcd       5\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_plain_when_piped():
    stream = io.StringIO()
    with common.Progress("reading", total=2000, unit="files", stream=stream) as progress:
        for done in range(2001):
            progress.update(done)
    # Ten seconds have not passed, so only the final line is printed.
    assert stream.getvalue() == "reading: 2,000 of 2,000 files\n"


def test_progress_redraws_one_line_on_a_terminal():
    stream = Terminal()
    with common.Progress("reading", unit="files", stream=stream) as progress:
        progress.update(1)
        progress.update(7)
    assert stream.getvalue().startswith("\r\033[Kreading: 1 files")
    assert stream.getvalue().endswith("\r\033[Kreading: 7 files\n")
    assert stream.getvalue().count("\n") == 1

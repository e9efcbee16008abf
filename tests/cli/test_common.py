"""Tables that commands print."""

import json

from keras_bert_impl.cli import common


def test_table(capsys):
    rows = [{"name": "a", "count": 1234, "hidden": 0}, {"name": "bcd", "count": 5, "hidden": 0}]
    common.print_table(rows, {"name": "name", "count": "count"})
    assert capsys.readouterr().out == "name  count\na     1,234\nbcd       5\n"


def test_names_cannot_control_the_terminal(capsys, monkeypatch):
    name = "\x1b[31m\u202e\n"
    common.print_table([{"name": name}], {"name": "name"})
    common.print_scores({name: 1})
    common.print_json([name])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and "\u202e" not in printed
    assert printed.splitlines()[1] == "\\u001b[31m\\u202e\\n"
    assert json.loads(printed[printed.index("[\n") :]) == [name]
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
        common.print_line(name, is_data=True)
        assert ("\x1b" in capsys.readouterr().out) is not is_terminal

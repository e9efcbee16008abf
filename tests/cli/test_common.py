"""Tables that commands print."""

from keras_bert_impl.cli import common


def test_table(capsys):
    rows = [{"name": "a", "count": 1234, "hidden": 0}, {"name": "bcd", "count": 5, "hidden": 0}]
    common.print_table(rows, {"name": "name", "count": "count"})
    assert capsys.readouterr().out == "name  count\na     1,234\nbcd       5\n"

import logging

import pytest

from keras_bert_impl.data.tags.spans import outside_candidates
from keras_bert_impl.tasks import read_columns, score_tags
from keras_bert_impl.utils.errors import InputError


def written(tmp_path, content):
    path = tmp_path / "data.tsv"
    path.write_text(content)
    return path


@pytest.mark.parametrize("outside", ["0", "_", "-", "", "NONE", "null", "Other"])
def test_other_spellings_of_o_are_read_as_o(tmp_path, caplog, outside):
    path = written(tmp_path, f"Ada\tB-PER\nsat\t{outside}\n")
    with caplog.at_level(logging.WARNING):
        examples = read_columns(path)
    assert examples.labels == [["B-PER", "O"]]
    assert f"label {outside!r} marks words outside of entities" in caplog.text
    assert score_tags(examples, [["B-PER", "O"]])["f1"] == 1


def test_any_other_label_may_be_given_as_outside(tmp_path, caplog):
    path = written(tmp_path, "Ada\tB-PER\nsat\tNADA\nhere\tNADA\n")
    with caplog.at_level(logging.WARNING):
        examples = read_columns(path)
    assert examples.labels == [["B-PER", "NADA", "NADA"]]
    assert "pass outside='NADA' (--outside NADA)" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        examples = read_columns(path, outside="NADA", labels=["NADA", "B-PER"])
        assert score_tags(examples, examples.labels)["f1"] == 1
    assert examples.label_names == ["O", "B-PER"] and not caplog.text


def test_labels_of_other_tasks_stay_as_they_are(tmp_path, caplog):
    path = written(tmp_path, "Ada\tPROPN\nsat\tVERB\n,\t_\n")
    with caplog.at_level(logging.WARNING):
        assert read_columns(path).labels == [["PROPN", "VERB", "_"]]
    assert not caplog.text
    with pytest.raises(InputError, match="line 2: label '0' is neither .*pass outside='0'"):
        read_columns(written(tmp_path, "Ada\tB-PER\nsat\t0\nhere\tO\n"))
    examples = read_columns(written(tmp_path, "Ada\t_\nsat\t_\n,\tCase=Nom\n"))
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        score_tags(examples, examples.labels)
    assert not caplog.text
    assert outside_candidates(["phone", "E-mail"]) == []
    assert outside_candidates(["O", "B-PER", "0"]) == []


def test_scores_name_the_label_without_entities(tmp_path, caplog):
    path = written(tmp_path, "Ada\tB-PER\nsat\tNADA\n")
    examples = read_columns(path)
    with caplog.at_level(logging.WARNING):
        assert "f1" not in score_tags(examples, examples.labels)
    assert (
        "entity F1 is not computed, because 'NADA' is not in the format of the entity labels"
        in caplog.text
    )

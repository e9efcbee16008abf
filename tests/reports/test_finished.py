"""What a finished run writes about itself."""

import logging

from keras_bert_impl.reports import finished


def test_a_run_has_a_report_and_a_card_with_its_scores(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<h2" in page and "Confusion" in page
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "accuracy" in card


def test_an_error_is_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        finished.describe_run(tmp_path / "missing")
    assert "has no complete report: InputError" in caplog.text

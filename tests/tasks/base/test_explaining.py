"""How models are shown in a console and in a notebook."""

from keras_bert_impl import Adapter, TextClassifier, TextEmbedder
from tests.tasks import helpers


def test_a_model_is_shown_with_its_sizes_and_labels(tmp_path):
    base = helpers.save_base(tmp_path)
    model = TextClassifier.from_pretrained(base, labels=["<b>", "c"], adapter=Adapter("lora"))
    config = model.config
    assert repr(model) == (
        f"<TextClassifier: encoder={config.num_layers} layers of {config.hidden_dim}, "
        f"parameters={model.count_params():,}, "
        f"tokenizer=WordPieceTokenizer of {len(model.tokenizer.vocabulary)}, "
        f"max_length={model.max_length}, labels=<b>, c, adapter={config.adapter}>"
    )
    page = model._repr_html_()
    assert "<th>labels</th><td>&lt;b&gt;, c</td>" in page and "<b>" not in page


def test_many_labels_are_cut_and_embedders_have_none(tmp_path):
    base = helpers.save_base(tmp_path)
    names = [f"label{number}" for number in range(12)]
    model = TextClassifier.from_pretrained(base, labels=names)
    assert "label9, ... (12 in all)>" in repr(model) and "label10" not in repr(model)
    assert "labels" not in repr(TextEmbedder.from_pretrained(base))

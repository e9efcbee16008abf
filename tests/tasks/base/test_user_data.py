import pytest

from keras_bert_impl.data.tables import user_input
from tests.tasks.helpers import classifier, examples

TEXTS, LABELS = examples(count=40)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_fit_looks_at_each_text_once(share, monkeypatch):
    sizes = {"checked": [], "from_columns": []}

    def counted(name):
        function = getattr(user_input, name)

        def call(x, *args):
            sizes[name].append(len(x))
            return function(x, *args)

        return call

    for name in sizes:
        monkeypatch.setattr(user_input, name, counted(name))
    classifier().fit(TEXTS, LABELS, validation_split=share, verbose=0)
    assert sizes == {"checked": [40], "from_columns": [40]}

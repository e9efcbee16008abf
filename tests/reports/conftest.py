"""A tiny run whose texts and labels try to break the page."""

import dataclasses

import pytest

from keras_bert_impl import finetune
from keras_bert_impl.data.tables.examples import Examples
from tests.tasks import helpers

PAYLOADS = [
    "<script>document.title='broken'</script> good",
    "<img src=x onerror=\"document.title='broken'\"> bad film",
    "</style></script><h1 id=broken>dull</h1> & &amp; \"quoted\" 'so'",
    "\u202e\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 great",
    "joy 🎬👩‍👩‍👧 " + "\u0301" * 20,
    "x" * 10_000,
    "nul \x00 and \x1b[31m plot",
]
LABELS = ["bad & <b>", "good"]


def dev_examples():
    texts, labels = helpers.examples(count=30, seed=1)
    texts = [*PAYLOADS, *texts]
    labels = ["positive"] * 4 + ["negative"] * 3 + labels
    return Examples(texts, [LABELS[label == "positive"] for label in labels], source="<dev>.csv")


@pytest.fixture(scope="session")
def dev():
    return dev_examples()


@pytest.fixture(scope="session")
def run(tmp_path_factory, dev):
    """A finished run; do not write into it."""
    folder = tmp_path_factory.mktemp("reports")
    base = helpers.save_base(folder / "base", max_length=64)
    texts, labels = helpers.examples(count=32)
    train = dataclasses.replace(
        dev, texts=texts, labels=[LABELS[label == "positive"] for label in labels]
    )
    settings = {"epochs": 2, "batch_size": 16, "learning_rate": 3e-2, "max_length": 32}
    finetune(base, train, dev, folder / "run", verbose=0, **settings)
    return folder / "run"

"""Tasks of the fine-tuning benchmark: their files, readers and recipes."""

from typing import NamedTuple


class Task(NamedTuple):
    """A task and its recipe.

    Attributes:
        kind: str, value for `keras-bert finetune --task`.
        train, dev: str, files in the data folder; None for a GLUE task, which is read from `glue/`.
        epochs, learning_rate, max_length: recipe values; `max_length` in tokens.
        doc_stride: int, in tokens; None if there are no windows.
    """

    kind: str
    epochs: int
    learning_rate: float
    max_length: int
    train: str | None = None
    dev: str | None = None
    doc_stride: int | None = None

    def read(self, data):
        """Returns (train, dev) from a data folder (a `Path`), read with this package."""
        from keras_bert_impl.tasks import (
            read_choices,
            read_columns,
            read_conllu,
            read_glue,
            read_squad,
        )

        if self.train is None:
            return tuple(read_glue(self.kind, data / "glue", split) for split in ("train", "dev"))
        reader = {"squad": read_squad, "choice": read_choices, "tagging": read_columns}[self.kind]
        if self.train.endswith(".conllu"):
            reader = read_conllu
        return reader(data / self.train), reader(data / self.dev)

    def arguments(self, data):
        """Returns `keras-bert finetune` arguments for the files in a data folder: a list of str."""
        files = ["--data", str(data / "glue")]
        if self.train is not None:
            files = ["--train", str(data / self.train), "--dev", str(data / self.dev)]
        return ["--task", self.kind, *files]

    @property
    def recipe(self):
        """Returns a dict with this package's settings."""
        names = ("epochs", "learning_rate", "max_length")
        stride = {} if self.doc_stride is None else {"doc_stride": self.doc_stride}
        return {name: getattr(self, name) for name in names} | stride


TASKS = {
    "sst2": Task("sst2", 2, 3e-5, 64),
    "mrpc": Task("mrpc", 4, 5e-5, 128),
    "rte": Task("rte", 5, 5e-5, 128),
    "stsb": Task("stsb", 4, 5e-5, 128),
    "cola": Task("cola", 4, 5e-5, 128),
    "ewt": Task(
        "tagging", 2, 5e-5, 128, "tagging/en_ewt-ud-train.conllu", "tagging/en_ewt-ud-dev.conllu"
    ),
    "wnut": Task(
        "tagging",
        5,
        5e-5,
        128,
        "tagging/wnut17-wnut17train.conll",
        "tagging/wnut17-emerging.dev.conll",
    ),
    "codah": Task(
        "choice", 3, 5e-5, 128, "choice/codah-fold0-train.tsv", "choice/codah-fold0-dev.tsv"
    ),
    # `qa/train.json` contains the articles of `new_wiki_v1.0.json` (SQuADShifts), then the
    # articles of `train-v1.1.12articles.json`: 12,308 questions, 14,013 windows, 438 steps.
    # Windows in transformers overlap by 128 tokens. With questions of about 12 tokens, the stride
    # is 112.
    "squad": Task("squad", 1, 5e-5, 256, "qa/train.json", "qa/dev-v1.1.json", 112),
}

"""Tiny files and objects that docstring examples refer to."""

import functools
import json
import lzma
import shutil

import keras
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

import keras_bert_impl as k
from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.models.conversion.formats import convert
from keras_bert_impl.tasks import ChoiceExamples, TaggedExamples

WORDS = "a b c cat text the film was good bad dull joy it its next sentence more is not".split()


@functools.cache
def tokenizer():
    return k.WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"])


def config(**fields):
    sizes = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
    sizes |= {"vocabulary_size": tokenizer().vocabulary_size, "max_length": 128}
    return k.EncoderConfig(**sizes | fields)


def encoder(**fields):
    return k.Encoder(config(**fields))


def classifier(**arguments):
    return k.TextClassifier(encoder(), tokenizer(), **{"labels": ["bad", "good"]} | arguments)


# === Files ===


def write_files(root):
    """Writes every file and folder that the examples read."""
    _write_texts(root)
    _write_labeled(root)
    _write_models(root)
    k.prepare(root / "corpus.txt", root / "records", tokenizer(), length=32, num_workers=1)


def _write_texts(root):
    sentences = [" ".join(WORDS[start::3]) + f" {start}." for start in range(4)]
    documents = ["\n".join([f"Text {number}.", *sentences]) for number in range(250)]
    text = "\n\n".join(documents[:40])
    (root / "corpus.txt").write_text(text)
    (root / "wiki.txt").write_text("\n\n".join(documents))
    (root / "wiki.txt.xz").write_bytes(lzma.compress(text.encode()))
    (root / "abstracts.txt").write_text("cats " * 20)
    (root / "folder").mkdir()
    (root / "folder" / "a.txt").write_text("a text\n\nmore text\n")
    _MyText(data_dir=root / "tfds").download_and_prepare()


class _MyText(tfds.core.GeneratorBasedBuilder):
    name = "my_text"
    VERSION = tfds.core.Version("1.0.0")
    code_path = None

    def _info(self):
        features = tfds.features.FeaturesDict({"body": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, manager):
        return {"train": ((number, {"body": f"Text {number}."}) for number in range(100))}

    def _generate_examples(self):
        raise NotImplementedError


def _write_labeled(root):
    def write(path, *rows, separator="\t"):
        path = root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(separator.join(row) + "\n" for row in rows))

    texts = [("the film was good", "good"), ("it is dull", "bad")] * 4
    for name in ("train", "dev", "all"):
        rows = [(f"is it {label}", text, text, label) for text, label in texts]
        header = "question", "answer", "text", "label"
        write(f"{name}.csv", header, *dict.fromkeys(rows), *rows, separator=",")
    write("reviews.csv", ("review", "stars"), ("a joy", "5"), ("dull", "1"), separator=",")
    for split in ("train", "dev"):
        header = "Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"
        pairs = [("1", "1", "2", "a film", "the film"), ("0", "3", "4", "a cat", "more text")]
        write(f"glue/MRPC/{split}.tsv", header, *pairs)
        header = "index", "sentence1", "sentence2", "score"
        pairs = [("0", "a cat", "the cat", "4.5"), ("1", "a film", "b", "0.5")]
        write(f"glue/STS-B/{split}.tsv", header, *pairs, ("2", "c", "joy", "1.0"))
    header = "language", "gold_label", "sentence1", "sentence2"
    write("data/XNLI-1.0/xnli.dev.tsv", header, ("de", "neutral", "ein Film", "gut"))
    endings = "sleep.", "eat.", "fly.", "eat something."
    write("codah/full_data.tsv", ("o", "I am very hungry. I", *endings, "3"))
    words = "EU", "rejects", "German"
    rows = zip(words, ("B-ORG", "O", "B-MISC"))
    write("conll2003/train.txt", *rows, separator=" ")
    rows = [(str(n), word, *"_" * 8) for n, word in enumerate(("From", "the", "AP"), 1)]
    tags = ("ADP", "DET", "PROPN")
    rows = [(*row[:3], tag, *row[4:]) for row, tag in zip(rows, tags)]
    write("en_ewt-ud-dev.conllu", *rows)
    answer = {"text": "Ann", "answer_start": 0}
    question = {"id": "1", "question": "Who came?", "answers": [answer]}
    paragraph = {"context": "Ann came.", "qas": [question]}
    squad = {"version": "1.1", "data": [{"title": "Ann", "paragraphs": [paragraph]}]}
    (root / "dev-v1.1.json").write_text(json.dumps(squad))
    published = {"num_hidden_layers": 12, "text_config": {"dropout": "0.1"}}
    (root / "checkpoints.config.json").write_text(json.dumps(published))


def _write_models(root):
    import torch

    path = root / "path/to"
    for name in ("path/to/model", "model", "base", "small", "bert-base", "bert-base-uncased"):
        pretrained = k.Pretrainer(encoder(), ["masked_lm", "next_sentence"])
        pretrained.save_pretrained(root / name, tokenizer())
    causal = k.Pretrainer(encoder(causal=True), ["left_to_right"])
    causal.save_pretrained(path / "causal-model", tokenizer())
    classifier().save_pretrained(root / "teacher")
    pairs = k.NextSentencePredictor(encoder(), tokenizer())
    pairs.save_pretrained(path / "bert-base-uncased")
    labels = ["entailment", "neutral", "contradiction"]
    classifier(labels=labels).save_pretrained(path / "model-tuned-on-mnli")
    _write_run(root / "run")
    tokenizer().save_pretrained(root / "vocabulary")
    big = encoder(hidden_dim=768, num_heads=12)
    big.save_pretrained(root / "big")
    convert(root / "big", root / "uncased_L-12_H-768_A-12", "google")
    _write_training_checkpoint(root, path)
    torch.save({"bert.pooler.dense.bias": torch.zeros(768)}, root / "pytorch_model.bin")


def _write_run(run):
    classifier(labels=["not_equivalent", "equivalent"]).save_pretrained(run / "model")
    lines = [{"step": step, "mlm_accuracy": 0.1 * step, "loss": 1 / step} for step in (1, 2, 3)]
    (run / "recipe.yaml").write_text("dtype: float32\n")
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_training_checkpoint(root, path):
    """Writes a checkpoint with Adam's moments, like a run of google-research/bert."""
    encoder().save_pretrained(root / "plain")
    convert(root / "plain", root / "plain_google", "google")
    reader = tf.train.load_checkpoint(str(root / "plain_google" / "bert_model.ckpt"))
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    slots = {f"{name}/{slot}": tensors[name] for name in tensors for slot in ("adam_m", "adam_v")}
    tensors |= slots | {"global_step": np.int64(1000)}
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(path / "model.ckpt-1000"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tensors[name] for name in names],
    )
    shutil.copy(root / "plain_google" / "bert_config.json", path)


# === Objects ===


def _regressor():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def _numbers():
    return tf.data.Dataset.from_tensor_slices((np.ones((8, 4)), np.ones((8, 1)))).batch(4)


# Names available to every example.
COMMON = {
    "config": config,
    "encoder": encoder,
    "tokenizer": tokenizer,
    "texts": lambda: ["the film was good", "it is dull"],
    "labels": lambda: ["good", "bad"],
    "model": classifier,
    "student": classifier,
    "teacher": classifier,
    "classifier": classifier,
    "embedder": lambda: k.TextEmbedder(encoder(), tokenizer()),
    "features": lambda: {"token_ids": np.array([[2, 5, 6, 3]], "int32")},
    "train": lambda: (["the film was good", "it is dull"], ["good", "bad"]),
    "dev": lambda: (["the film was good", "it is dull"], ["good", "bad"]),
    "data": _numbers,
    "directory": lambda: ".",
    "steps": lambda: 1,
    "states": lambda: np.ones((2, 3), "float32"),
}


def _masked_lm():
    return k.MaskedLM(encoder(), tokenizer())


def _pretrainer():
    model = k.Pretrainer(encoder(), ["masked_lm", "next_sentence"])
    model.compile("adam")
    return model


def _answerer(**arguments):
    return k.QuestionAnswerer(encoder(), tokenizer(), **arguments)


def _choices():
    return ChoiceExamples([("It is", ["good", "bad", "a cat"])], [0])


def _checkpoint():
    from keras_bert_impl.training.runs.checkpoints import RunCheckpoint

    return RunCheckpoint(_regressor(), "checkpoints")


def _short_pretrain(*arguments, **settings):
    """Runs `pretrain` with a tiny model for two steps."""
    settings = {key: settings[key] for key in settings if not key.startswith("records_")}
    settings |= {"model": config(), "total_steps": 2, "warmup_steps": 1, "batch_size": 4}
    return k.pretrain(*arguments, **settings)


def _questions():
    return QuestionExamples(["1"], ["is it"], ["it is"], [[("it", 0)]], [False], ["a"])


def _hub_model():
    """A classifier with the activation of KerasHub's BERT."""
    encoder = k.Encoder(config(activation="gelu_tanh"))
    k.TextClassifier(encoder, tokenizer(), num_classes=2).save_pretrained("hub_model")
    return open_model("hub_model")


def _short_set(model, train, dev, directory, grid, **settings):
    """Runs `finetune_set` with the first value of each setting only."""
    grid = {name: values[:1] for name, values in grid.items()}
    return k.finetune_set(model, train, dev, directory, grid, **settings)


# Names for a single example, by its dotted name.
@functools.cache
def _to_calibrate():
    """A classifier, and texts whose labels are what it predicts, but for one."""
    keras.utils.set_random_seed(1)
    model = classifier()
    kernel = model.head_layer.dense.kernel
    kernel.assign(100 * kernel)
    texts = ["the film was good", "it is dull", "bad text", "a joy", "the cat", "more joy"]
    scores = model.predict(texts, verbose=0)
    predicted = scores.argmax(axis=1)
    predicted[scores.max(axis=1).argsort()[2]] ^= 1
    return model, texts, [model.labels[number] for number in predicted]


OWN = {
    "checkpoints.interop.keras_hub.models.write_keras_hub_preset": {
        "described": lambda: _hub_model().config,
        "tensors": lambda: {name: _hub_model().read(name) for name in _hub_model().unread()},
    },
    "layers.crf.CRF": {
        "emissions": lambda: np.ones((2, 4, 3), "float32"),
        "mask": lambda: np.ones((2, 4), "int32"),
        "labels": lambda: np.ones((2, 4), "int32"),
    },
    "reports.plots.learning_curves": {
        "model": _regressor,
        "texts": lambda: np.ones((8, 4)),
        "labels": lambda: np.ones((8, 1)),
    },
    "pretraining.run.pretrain": {"pretrain": lambda: _short_pretrain},
    "tasks.language_modeling.model.MaskedLM.pseudo_perplexity": {"model": _masked_lm},
    "data.choices.score_choices": {
        "examples": _choices,
        "model": lambda: k.MultipleChoice(encoder(), tokenizer()),
    },
    "tasks.question_answering.results.score_answers": {
        "examples": _questions,
        "model": _answerer,
    },
    "tasks.question_answering.results.search_null_threshold": {
        "dev": _questions,
        "model": lambda: _answerer(null_threshold=0.0),
    },
    "finetuning.finetune.finetune_set": {"finetune_set": lambda: _short_set},
    "data.tags.examples.score_tags": {
        "examples": lambda: TaggedExamples([["a", "cat"]], [["O", "B-PER"]]),
        "tagger": lambda: k.TokenClassifier(encoder(), tokenizer(), labels=["O", "B-PER"]),
    },
    "training.optimizers.schedules.TimeBudget": {"model": _regressor},
    "training.strategy.get_strategy": {"build_model": lambda: _regressor},
    "tasks.text_classification.model.TextClassifier.calibrate": {
        "classifier": lambda: _to_calibrate()[0],
        "texts": lambda: _to_calibrate()[1],
        "labels": lambda: _to_calibrate()[2],
    },
    "training.tuning.choice.save_tuned": {"labels": lambda: [1, 0]},
}

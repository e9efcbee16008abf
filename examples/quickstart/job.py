"""The quickstart job on local text: corpus, pre-training, fine-tuning, export, predictions.

A stage whose output exists is skipped, so that an interrupted run can be resumed.
"""

import collections
import dataclasses
import functools
import json
import operator
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from examples.quickstart import ask, corpus
from keras_bert_impl import (
    Encoder,
    EncoderConfig,
    InputError,
    WordPieceTokenizer,
    finetune,
    learn_wordpiece_vocabulary,
    load_tuned,
    prepare,
    pretrain,
)
from keras_bert_impl.pretraining import (
    read_documents,
    read_manifest,
)
from keras_bert_impl.tasks import Examples, read_table

_REPORT_EVERY = 100  # steps


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes of the job, chosen so that it finishes within ten minutes on two cores."""

    vocabulary_size: int = 5000
    num_layers: int = 2
    hidden_dim: int = 128
    num_heads: int = 4
    length: int = 64  # sequence length
    passes: int = 3  # passes over the corpus, each with new sentence pairs
    batch_size: int = 32
    pretraining_steps: int = 3300
    learning_rate: float = 2e-3
    mask_rate: float = 0.3
    libraries: int = 8  # classes
    texts_per_library: int = 100  # in the training set and in the held-out set
    finetuning_epochs: int = 8
    finetuning_rate: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        # Single characters need about 200 tokens.
        least = {"vocabulary_size": 300, "length": 8, "libraries": 2, "seed": 0}
        for name, value in dataclasses.asdict(self).items():
            if isinstance(value, int) and value < least.get(name, 1):
                raise InputError(f"{name} must be at least {least.get(name, 1)}, got {value}.")
            if isinstance(value, float) and not 0 < value < 1:
                raise InputError(f"{name} must be a number in (0, 1), got {value}.")
        if self.hidden_dim % self.num_heads:
            raise InputError(
                f"hidden_dim, {self.hidden_dim}, must be a multiple of num_heads, {self.num_heads}."
            )


class Job:
    """Runs the stages of the quickstart job and stores their outputs in a directory."""

    def __init__(
        self, directory: str | Path, settings: Settings, say: Callable[[str], None] = print
    ) -> None:
        self.directory, self.settings = Path(directory), settings
        self._say, self._start = say, time.monotonic()

    def run(self) -> dict[str, dict[str, float]]:
        """Runs every unfinished stage. Returns the scores, and writes them to `scores.json`."""
        self._check_settings()
        self._stage("text", "reading the documentation of the installed packages", self.read_text)
        self.show_first_result()
        self._stage("tokenizer", "learning a vocabulary", self.learn_vocabulary)
        self._stage("records", "preparing records", self.prepare_records)
        self._stage("untrained", "making the network", self.make_network)
        scores = {"masked_lm": self.pretrain(), "classification": self.finetune()}
        self._stage("exported", "exporting a SavedModel", self.export)
        self.path("scores.json").write_text(json.dumps(scores, indent=2), encoding="utf-8")
        return scores

    def path(self, name: str) -> Path:
        return self.directory / name

    def _check_settings(self):
        """Finished stages must have the same settings."""
        path, settings = self.path("settings.json"), dataclasses.asdict(self.settings)
        self.directory.mkdir(parents=True, exist_ok=True)
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else settings
        for name, value in settings.items():
            if before[name] != value:
                raise InputError(
                    f"{name} was {before[name]} in {self.directory}. Choose another folder with "
                    "--out."
                )
        path.write_text(json.dumps(settings, indent=2), encoding="utf-8")

    def _stage(self, name, what, make):
        """Calls `make` with a temporary path, which becomes the path of the finished stage."""
        path, temporary = self.path(name), self.path(f"{name}.unfinished")
        if path.exists():
            self.say(f"{what}: already done, in {path}")
            return
        self.say(what)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        make(temporary)
        temporary.rename(path)

    def say(self, text: str) -> None:
        self._say(f"[{time.monotonic() - self._start:4.0f} s] {text}")

    # === Data ===

    def read_text(self, directory: Path) -> None:
        """Writes `corpus.txt` for pre-training, `train.tsv` and `dev.tsv`."""
        settings = self.settings
        passages = corpus.read_passages(corpus.installed_files())
        training, held_out = corpus.split_by_module(passages, seed=settings.seed)
        libraries = corpus.largest_libraries(training, settings.libraries)
        corpus.write_sentences(training, directory / "corpus.txt")
        for file, part in (("train.tsv", training), ("dev.tsv", held_out)):
            corpus.write_labeled(part, libraries, directory / file, settings.texts_per_library)
        words = sum(len(" ".join(passage.sentences).split()) for passage in training)
        self.say(f"{len(training):,} documents, {words:,} words")

    def show_first_result(self) -> None:
        """Prints the predictions of a linear model on held-out texts."""
        dev, predictions = self.labeled("dev"), self._baseline
        score = accuracy(predictions, dev.labels)
        self.say("first result: predict which library a passage of documentation is from")
        for row in (0, len(dev) // 2):
            text = dev.texts[row]
            self._say(f"         {text[:80]}{'...' if len(text) > 80 else ''}")
            self._say(f"             predicted: {predictions[row]}; label: {dev.labels[row]}")
        self._say(
            f"         logistic regression on words: accuracy {score:.1%} on {len(dev):,} passages"
        )
        self._say(
            "         expect BERT to score lower: it starts from random weights, and published "
            "models were trained on more than 1,000 times as much text"
        )

    def learn_vocabulary(self, directory: Path) -> None:
        documents = read_documents(self.path("text/corpus.txt"))
        texts = (sentence for document in documents for sentence in document.paragraphs)
        vocabulary = learn_wordpiece_vocabulary(texts, self.settings.vocabulary_size)
        WordPieceTokenizer(vocabulary).save_pretrained(directory)

    def prepare_records(self, directory: Path) -> None:
        """Writes the pre-training records. 1 of 50 documents is held out."""
        manifest = prepare(
            self.path("text/corpus.txt"),
            directory,
            self.tokenizer(),
            length=self.settings.length,
            passes=self.settings.passes,
            held_out=0.02,
            num_workers=1,  # A second process would start too late to help.
            seed=self.settings.seed,
        )
        train = manifest["splits"]["train"]
        self.say(
            f"{train['examples']:,} sentence pairs in {train['rows']:,} rows, "
            f"{train['tokens']:,} tokens, {train['fill']:.1%} full"
        )

    # === Models ===

    def make_network(self, directory: Path) -> None:
        settings, tokenizer = self.settings, self.tokenizer()
        keras.utils.set_random_seed(settings.seed)
        encoder = Encoder(
            EncoderConfig(
                vocabulary_size=tokenizer.vocabulary_size,
                hidden_dim=settings.hidden_dim,
                num_layers=settings.num_layers,
                num_heads=settings.num_heads,
                intermediate_dim=4 * settings.hidden_dim,
                max_length=settings.length,
                # 1 / sqrt(hidden_dim), large enough for attention to start learning. BERT's 0.02 is
                # intended for a width of 768. With 0.02, a small network predicts only word
                # frequencies for many more steps.
                initializer_range=round(settings.hidden_dim**-0.5, 2),
            )
        )
        encoder.save_pretrained(directory)
        tokenizer.save_pretrained(directory, encoder.config)
        self.say(f"{encoder.count_params():,} parameters")

    def pretrain(self) -> dict[str, float]:
        """Pre-trains the network. Returns held-out scores of the network and a unigram baseline."""
        settings, records = self.settings, self.path("records")
        self.say(f"pre-training {settings.pretraining_steps:,} steps")
        pretrain(
            records,
            self.path("pretraining"),
            model=str(self.path("untrained/config.json")),
            total_steps=settings.pretraining_steps,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            bias_correction=True,
            mask_rate=settings.mask_rate,
            dropout=0.0,  # The corpus is read only a few times, so no regularization is needed.
            jit_compile=True,
            report_every=_REPORT_EVERY,
            evaluate_every=_REPORT_EVERY
            * max(1, settings.pretraining_steps // (3 * _REPORT_EVERY)),
            seed=settings.seed,
            verbose=0,
            callbacks=[_Report(self.say, settings.pretraining_steps)],
        )
        scores = json.loads(self.path("pretraining/scores.json").read_text(encoding="utf-8"))
        held_out = read_manifest(records)["splits"]["held_out"]
        random_next = held_out["pairs_labelled_1"] / held_out["examples"]
        return {
            "loss": scores["masked_lm_loss"],
            "accuracy": scores["masked_lm_accuracy"],
            "unigram_loss": scores["unigram/masked_lm_loss"],
            "unigram_accuracy": scores["unigram/masked_lm_accuracy"],
            "next_sentence_accuracy": scores["next_sentence_accuracy"],
            "next_sentence_majority": max(random_next, 1 - random_next),
        }

    def finetune(self) -> dict[str, float]:
        """Fine-tunes the pre-trained network and an untrained network.

        Returns the accuracy of the two networks and of two baselines.
        """
        train, dev = self.labeled("train"), self.labeled("dev")
        scores = {
            "majority": majority(train.labels, dev.labels),
            "tfidf_logistic_regression": accuracy(self._baseline, dev.labels),
        }
        for name, model in (("untrained", "untrained"), ("pretrained", "pretraining/model")):
            self.say(f"fine-tuning the {name} network on {len(train):,} texts")
            run = self.path(f"finetuning-{name}")
            finetune(
                self.path(model),
                train,
                dev,
                run,
                epochs=self.settings.finetuning_epochs,
                learning_rate=self.settings.finetuning_rate,
                max_length=self.settings.length,
                seed=self.settings.seed,
                verbose=0,
            )
            saved = json.loads((run / "scores.json").read_text(encoding="utf-8"))
            scores[name] = saved["accuracy"]
        return scores

    @functools.cached_property
    def _baseline(self):
        """Returns the linear model's predictions for the texts of `dev`."""
        train = self.labeled("train")
        return tfidf_predictions(train.texts, train.labels, self.labeled("dev").texts)

    def export(self, directory: Path) -> None:
        load_tuned(self.path("finetuning-pretrained")).export(directory)

    def ask(self, texts: Sequence[str]) -> dict[str, Any]:
        """Predicts texts with the SavedModel, in a new process that does not import this package."""
        answer = subprocess.run(
            [sys.executable, ask.__file__, str(self.path("exported"))],
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(answer.stdout.splitlines()[-1])

    def labeled(self, part: str) -> Examples:
        return read_table(self.path(f"text/{part}.tsv"), text="text", label="label")

    def tokenizer(self) -> WordPieceTokenizer:
        return WordPieceTokenizer.from_pretrained(self.path("tokenizer"))


class _Report(keras.callbacks.Callback):
    """Callback that reports the held-out scores and the remaining time."""

    def __init__(self, say: Callable[[str], None], total_steps: int) -> None:
        super().__init__()
        self._say = say
        self._total_steps = total_steps

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        steps, now = (epoch + 1) * _REPORT_EVERY, time.monotonic()
        # The rate is measured after the first report, which includes compilation.
        if not hasattr(self, "_first"):
            self._first = steps, now
        first_step, first_time = self._first
        left = ""
        if first_step < steps < self._total_steps:
            minutes = (now - first_time) * (self._total_steps - steps) / (steps - first_step) / 60
            left = f", about {max(1, round(minutes))} min left"
        if "val_masked_lm_loss" in logs:
            self._say(
                f"step {steps:,}: held-out masked words: "
                f"loss {logs['val_masked_lm_loss']:.3f}, "
                f"accuracy {logs['val_masked_lm_accuracy']:.1%}{left}"
            )
        elif steps == first_step + _REPORT_EVERY:
            self._say(f"step {steps:,} of {self._total_steps:,}{left}")


# === Baselines ===


def majority(train_labels: Sequence[str], dev_labels: Sequence[str]) -> float:
    """Returns the accuracy of always predicting the most frequent training label."""
    commonest = collections.Counter(train_labels).most_common(1)[0][0]
    return accuracy([commonest] * len(dev_labels), dev_labels)


def tfidf_predictions(
    train_texts: Sequence[str], train_labels: Sequence[str], texts: Sequence[str]
) -> list[str]:
    """Predicts labels by logistic regression on TF-IDF weights of word unigrams and bigrams."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2),
        LogisticRegression(C=10.0, max_iter=1000),
    )
    pipeline.fit(train_texts, train_labels)
    return pipeline.predict(texts).tolist()


def accuracy(predictions: Sequence[str], labels: Sequence[str]) -> float:
    return sum(map(operator.eq, predictions, labels)) / len(labels)

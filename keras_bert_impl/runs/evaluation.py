"""Evaluates fine-tuned models, and loads models for export."""

import logging
from collections.abc import Sequence
from pathlib import Path

from keras_bert_impl.data.scores.comparison import Change, change
from keras_bert_impl.data.scores.decisions import warn_of_nan
from keras_bert_impl.data.tables.checks import gaps_of
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.runs.inputs import with_metric_of
from keras_bert_impl.runs.run import load_embedder, load_tuned
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.serving.graphs.together import SeveralSignatures
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.embedding.signature import EncoderSignatures
from keras_bert_impl.tasks.language_modeling.model import MaskedLM
from keras_bert_impl.tasks.registry import score, score_more, task_of_examples
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory, write_json
from keras_bert_impl.utils.io.paths import local_path

_LOG = logging.getLogger(__name__)


def evaluate(
    model: TaskModel | str | Path,
    examples: LabeledExamples,
    output_directory: str | Path | None = None,
    more: dict[str, LabeledExamples] | None = None,
) -> dict[str, float]:
    """Computes the metrics of a fine-tuned model, as at the end of `finetune`.

    Decision settings of the model, such as the no-answer threshold of SQuAD 2.0, are not changed.

    Args:
        model: a model, or a run or model directory; see `load_tuned`.
        examples: labeled examples; see `finetune`. Labels of the examples and of the model are
            matched by name.
        output_directory: directory for `scores.json` and the predictions, which are replaced
            together; None writes no files.
        more: dict of name -> additional labeled examples; see `more_dev` of `finetune`.

    Returns:
        Scores by name. The first score is used to compare models. If `model` is a run, the first
        score is the `metric` of the run's settings.

    Raises:
        InputError: the model does not exist, the examples belong to a different task, or a label of
            the examples is not a label of the model.

    Example:
        from keras_bert_impl.tasks import read_glue
        evaluate("run", read_glue("mrpc", "glue", "dev"))["accuracy"]
    """
    if not isinstance(model, TaskModel):
        examples = with_metric_of(model, examples)
        model = load_tuned(model)
    if output_directory is None:
        scores = score(model, examples) | score_more(model, more or {})
    else:
        if (local_path(output_directory) / "recipe.yaml").exists():
            raise InputError(
                f"{output_directory} contains a run. Choose another directory for the scores."
            )
        with replace_directory(output_directory) as temporary:
            scores = score(model, examples, temporary) | score_more(model, more or {}, temporary)
            write_json(temporary / "scores.json", scores)
    warn_of_nan(scores, examples.source)
    kind, _ = examples.label_counts()
    for gap in gaps_of(examples, kind, model.labels if kind == "classes" else ()):
        _LOG.warning("%s: %s", examples.source, gap)
    return scores


def compare(model: TaskModel, old: TaskModel, examples: LabeledExamples) -> Change:
    """Compares the predictions of a model with an old model's predictions on labeled texts."""
    task = task_of_examples(examples)
    return change(*(task.outcome(candidate, examples, like=model) for candidate in (model, old)))


def load_model(
    name_or_path: str | Path,
    use: str | None = None,
    dtype: str | None = None,
    base: str | Path | None = None,
) -> TaskModel | Encoder:
    """Loads a model for export, from a run directory, a model directory or a model name."""
    if use is None:
        return load_tuned(name_or_path, dtype, base)
    if use == "embedder":
        return load_embedder(name_or_path, dtype, base=base)
    model_class = MaskedLM if use == "masked-lm" else Encoder
    return model_class.from_pretrained(name_or_path, dtype=dtype or "float32", base=base)


def load_signatures(
    name_or_path: str | Path,
    use: str | None = None,
    dtype: str | None = None,
    base: str | Path | None = None,
) -> Signatures:
    model = load_model(name_or_path, use, dtype, base)
    if use == "encoder":
        return EncoderSignatures(model, Tokenizer.from_pretrained(name_or_path))
    return model.signatures()


def load_several(
    directories: Sequence[str | Path], dtype: str | None = None, base: str | Path | None = None
) -> SeveralSignatures:
    """Loads the serving signatures of several models, named after their directories."""
    parts: dict[str, Signatures] = {}
    for directory in directories:
        path = local_path(directory).absolute()
        name = path.parent.name if path.name == "model" else path.name
        if name in parts:
            raise InputError(
                f"{directory}: another model is also called {name}. Rename one of the "
                "directories, because the signatures are named after them."
            )
        parts[name] = load_signatures(directory, None, dtype, base)
    return SeveralSignatures(parts)

"""Cross-validation: one fine-tuning run for each fold, and predictions for all examples."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_bert_impl.data.prediction_files import join_predictions
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.data.tables.splits import folds as folds_of
from keras_bert_impl.data.tables.splits import with_all_names
from keras_bert_impl.finetuning.finetune import finetune, spread_of
from keras_bert_impl.runs.inputs import as_examples, with_named_classes
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.registry import task_of
from keras_bert_impl.utils.io.files import replace_directory, write_json
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.run_files import read_scores

PREDICTIONS = "predictions.tsv"


def cross_validate(
    model: str | Path,
    examples: LabeledExamples | tuple,
    output_directory: str | Path,
    folds: int = 5,
    say: Callable[[str], Any] = lambda text: None,
    **options: Any,
) -> dict[str, Any]:
    """Fine-tunes a model for each fold and scores it on the fold's held-out examples.

    The directory contains the run directories `folds/1`, `folds/2`, ...; `scores.json` with the
    return value of this function; and `predictions.tsv` with the held-out prediction for each
    example. An interrupted cross-validation resumes.

    Args:
        model: see `finetune`.
        examples: labeled examples, or a tuple (texts, labels); see `finetune`. Folds are
            stratified. Equal texts, and examples of a group, are in the same fold; see `hold_out`.
        output_directory: directory to write.
        folds: number of folds.
        say: function that is called with the name of each run.
        **options: other arguments of `finetune`, and fields of `FinetuneSettings`. `seed` also
            determines the folds.

    Returns:
        `folds`, a dict of path -> scores; `scores`, a dict of metric -> `mean`, `std` (sample
        standard deviation), `min`, `max`; and `pooled`, a dict of metric -> score of the held-out
        predictions for all examples. If a fold has no example of a class, only the pooled macro F1
        covers all classes. `pooled` is missing if the predictions of the task cannot be pooled.

    Raises:
        InputError: see `finetune`.

    Example:
        from keras_bert_impl import cross_validate
        texts, labels = ["good film", "a joy", "dull", "bad film"], ["pos", "pos", "neg", "neg"]
        cross_validate("path/to/model", (texts, labels), "folds", folds=2, epochs=4)["scores"]
    """
    directory = local_path(output_directory)
    data = with_all_names(with_named_classes(as_examples(examples, "train"))[0])
    scores, written = {}, []
    parts = folds_of(data, folds, options.get("seed", FinetuneSettings.seed))
    for number, (train, dev, rows) in enumerate(parts, 1):
        run = directory / "folds" / str(number)
        say(f"fold {number} of {folds}: {run}")
        finetune(model, train, dev, run, **options)
        gc.collect()
        scores[f"folds/{number}"] = read_scores(run / "scores.json")
        if (run / PREDICTIONS).exists():
            written.append((run / PREDICTIONS, rows))
    first, *remaining = scores.values()
    names = [name for name in first if all(name in fold_scores for fold_scores in remaining)]
    spreads = {
        name: spread_of([fold_scores[name] for fold_scores in scores.values()]) for name in names
    }
    summary: dict[str, Any] = {"folds": scores, "scores": spreads}
    with replace_directory(directory) as temporary:
        if len(written) == folds:
            join_predictions(temporary / PREDICTIONS, written)
            compared = task_of(data, data).compare(data, data, temporary)
            if compared is not None:
                metrics = compared.outcome.metrics
                summary["pooled"] = {name: compared.outcome.score(name) for name in metrics}
        write_json(temporary / "scores.json", summary)
    return summary

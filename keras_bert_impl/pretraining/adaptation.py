"""Domain adaptation: continued masked language modeling on unlabeled text."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_bert_impl.first_guesses import known_arguments
from keras_bert_impl.interop import open_model, read_encoder_config
from keras_bert_impl.interop.sentence_transformers import copy_sentence_settings
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import write_json
from keras_bert_impl.io.paths import expanded, local_path
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.models.heads import check_sees_both_sides
from keras_bert_impl.pretraining.corpus.cutting import as_paths
from keras_bert_impl.pretraining.corpus.preparation import Progress, prepare, shown_progress
from keras_bert_impl.pretraining.corpus.readers import read_documents
from keras_bert_impl.pretraining.examples.records import MANIFEST, read_manifest
from keras_bert_impl.pretraining.run import made_of, pretrain
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.runs.run_directory import RunDirectory, remove_checkpoints
from keras_bert_impl.training.strategy import check_strategy, num_workers


@known_arguments("adapt")
def adapt(
    model: str | Path,
    text: Any,
    output_directory: str | Path,
    strategy: Any = "auto",
    resume: bool = True,
    dtype: str = "float32",
    seed: int = 1,
    verbose: str | int = "auto",
    progress: Callable[[Progress], None] | None = None,
    **fields: Any,
) -> Path:
    """Continues pre-training a model on text of a domain, before fine-tuning.

    The output directory holds `records` (single segments), `run` (the pre-training run directory)
    and `data.json`. An interrupted call resumes; finished steps are not repeated. The model's
    tokenizer and pooler are kept. If the model has no masked LM head, a new one is initialized,
    with a warning.

    Args:
        model: Model directory or name; see `interop.open_model`.
        text: File, folder or `tfds://` name (see `read_documents`), or a list or iterator of texts,
            each of them one document.
        strategy, resume, verbose: see `pretrain`.
        seed: Seed of the records, masks and dropout.
        progress: Function that replaces the progress display of the preparation; see `prepare`.
        **fields: Fields of `AdaptationSettings`.

    Returns:
        The directory of the adapted model.

    Raises:
        InputError: The text, the settings or the model are invalid, or the directory was created
            from different inputs.

    Source: Gururangan et al. 2020, "Don't Stop Pretraining", section 3.

    Example:
        adapted = adapt("path/to/model", "corpus.txt", "run/adapt", adapt_steps=5000)
        finetune(adapted, train, dev, "run")
    """
    model, directory = expanded(model), local_path(output_directory)
    settings = AdaptationSettings(**fields)
    if num_workers() > 1:
        raise InputError(
            f"adaptation runs on one worker, not on {num_workers()}. On several workers, run "
            "prepare and pretrain, then fine-tune the result."
        )
    source = open_model(model)
    config = read_encoder_config(source)
    check_sees_both_sides(config, "adaptation")
    length = settings.adapt_length or min(128, config.max_length)
    if length > config.max_length:
        raise InputError(
            f"adapt_length={length} exceeds the maximum of {model}, {config.max_length} tokens."
        )
    run_settings = PretrainSettings(
        model=str(model if Path(model).is_dir() else source.path),
        total_steps=settings.adapt_steps,
        batch_size=settings.adapt_batch_size,
        learning_rate=settings.adapt_learning_rate,
        objectives=("masked_lm",),
        report_every=settings.report_every,
        bias_correction=True,  # without bias correction the first steps are several times too large
        dtype=dtype,
        seed=seed,
    )
    check_strategy(strategy)
    records = directory / "records"
    with as_paths(text) as (paths, format, _):
        name = str(text) if format == "auto" else "texts in memory"
        _check_same_text(directory, read_documents(paths, format), name, length, resume)
        if not (records / MANIFEST).exists():
            tokenizer = Tokenizer.from_pretrained(source.path)
            with contextlib.ExitStack() as stack:
                if progress is None and verbose != 0:
                    progress = stack.enter_context(shown_progress())
                prepare(
                    paths, records, tokenizer, length, "mlm",
                    input_format=format, seed=seed, progress=progress,
                )  # fmt: skip
    adapted = directory / "run" / "model"
    if adapted.is_dir():
        # The model is written last, so the run is complete.
        read = made_of(run_settings, {str(records): read_manifest(records)})
        RunDirectory(adapted.parent, run_settings, resume, made_of=read)
    else:
        pretrain(
            records,
            adapted.parent,
            strategy=strategy,
            resume=resume,
            verbose=verbose,
            **dataclasses.asdict(run_settings),
        )
    remove_checkpoints(adapted.parent)
    copy_sentence_settings(source, adapted, config)
    return adapted


def _check_same_text(directory, documents, name, length, resume):
    """Stores the text's checksum and the sequence length, or compares them with the stored ones."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update("\n".join([*document.paragraphs, ""]).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    now = {"text": name, "sha256": digest.hexdigest(), "length": length}
    path = directory / "data.json"
    if (directory / "records").exists():  # without records, later calls may use a different text
        if not path.exists():
            raise InputError(
                f"{directory} holds an adaptation, but data.json, which describes its data, is "
                "missing. Restore it, or choose another directory."
            )
        if not resume:
            raise InputError(f"{directory} holds an adaptation; choose another directory.")
        before = read_json(path)
        for name, what in (("sha256", "other text"), ("length", "rows of another length")):
            if before.get(name) != now[name]:
                raise InputError(
                    f"{directory} holds an adaptation with {what}: text {before.get('text')}, "
                    f"adapt_length {before.get('length')}. Use the same text and length, or choose "
                    "another directory."
                )
    write_json(path, now)

"""Adapting a model to a domain: masked language modelling goes on, on text without labels."""

import dataclasses
import hashlib
from pathlib import Path

from keras_bert_impl.first_guesses import known_arguments
from keras_bert_impl.interop import open_model, read_encoder_config
from keras_bert_impl.interop.sentence_transformers import read_projections, read_sentence_settings
from keras_bert_impl.interop.sentence_transformers_writing import write_sentence_settings
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import write_json
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.pretraining.corpus.memory_texts import as_paths
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.corpus.readers import read_documents
from keras_bert_impl.pretraining.examples.records import read_manifest
from keras_bert_impl.pretraining.run import made_of, pretrain
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.training.strategy import check_strategy, num_workers


@known_arguments("adapt")
def adapt(
    model,
    text,
    output_directory,
    strategy="auto",
    resume=True,
    dtype="float32",
    seed=1,
    verbose="auto",
    progress=None,
    **settings,
):
    """Goes on with the pre-training of a model on text of a domain, to be fine-tuned then.

    The directory holds `records`, of single segments, `run`, the run directory of
    the pre-training, and `data.json`. What was interrupted goes on, and what is done stays as it
    is. Tokenizer and pooler of the model are kept; a model without a masked language model's head
    gets a new one, of which a warning tells.

    Args:
        model: str or `Path`: a directory or a name; see `interop.open_model`.
        text: str or `Path` of a file or folder, or a `tfds://` name, see `read_documents`; or a
            list or iterator of texts, each a document.
        output_directory: str or `Path`.
        strategy, resume, verbose: as of `pretrain`.
        dtype: str. Keras dtype policy.
        seed: int. Decides records, masks and dropout.
        progress: as of `prepare`.
        **settings: fields of `AdaptationSettings`.

    Returns:
        `Path` of the adapted model's directory.

    Raises:
        InputError: text, settings or a model that cannot be used, or a directory that holds what
            was made of others.

    Source: Gururangan et al. 2020, "Don't Stop Pretraining", section 3.

    Example:
        adapted = adapt("path/to/model", "corpus.txt", "run/adapt", adapt_steps=5000)
        finetune(adapted, train, dev, "run")
    """
    settings = AdaptationSettings(**settings)
    if num_workers() > 1:
        raise InputError(
            f"adaptation is for one worker, not {num_workers()}; prepare and pretrain on several, "
            "and fine-tune what comes out."
        )
    source = open_model(model)
    config = read_encoder_config(source)
    length = settings.adapt_length or min(128, config.max_length)
    if length > config.max_length:
        raise InputError(
            f"adapt_length is {length}, and {model} takes up to {config.max_length} tokens."
        )
    run_settings = PretrainSettings(
        model=str(model if Path(model).is_dir() else source.path),
        total_steps=settings.adapt_steps,
        batch_size=settings.adapt_batch_size,
        learning_rate=settings.adapt_learning_rate,
        objectives=("masked_lm",),
        report_every=settings.report_every,
        bias_correction=True,  # without it the first of few steps are several times as large
        dtype=dtype,
        seed=seed,
    )
    check_strategy(strategy)
    directory = Path(output_directory)
    with as_paths(text) as (paths, format, _):
        name = str(text) if format == "auto" else "texts in memory"
        _check_same_text(directory, read_documents(paths, format), name, length, resume)
        if not (directory / "records" / "manifest.json").exists():
            tokenizer = Tokenizer.from_pretrained(source.path)
            records = directory / "records"
            prepare(
                paths, records, tokenizer, length, "mlm",
                input_format=format, seed=seed, progress=progress,
            )  # fmt: skip
    adapted = directory / "run" / "model"
    if adapted.is_dir():
        # It is written last: the run is done.
        manifests = {str(directory / "records"): read_manifest(directory / "records")}
        read = made_of(run_settings, manifests)
        RunDirectory(adapted.parent, run_settings, resume, made_of=read)
    else:
        pretrain(
            directory / "records",
            adapted.parent,
            strategy=strategy,
            resume=resume,
            verbose=verbose,
            **dataclasses.asdict(run_settings),
        )
    of_sentences = read_sentence_settings(source.task_path)
    if of_sentences:  # how an embedder makes a vector of a text
        of_sentences.setdefault("max_length", config.max_length)
        depth, dim = config.num_layers, config.hidden_dim
        projections = read_projections(source.task_path)
        write_sentence_settings(adapted, of_sentences, projections, depth, dim)
    return adapted


def _check_same_text(directory, documents, name, length, resume):
    """Writes what the records are of, or compares; reads all of the text."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update("\n".join([*document.paragraphs, ""]).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    now = {"text": name, "sha256": digest.hexdigest(), "length": length}
    path = directory / "data.json"
    if not path.exists() and (directory / "records").exists():
        raise InputError(
            f"{directory} holds an adaptation, but data.json, which has what it was made of, is "
            "gone: put it back, or give another directory."
        )
    # A text of which no records could be made binds nobody.
    if path.exists() and (directory / "records").exists():
        if not resume:
            raise InputError(f"{directory} holds an adaptation; give another directory.")
        before = read_json(path)
        for name, what in (("sha256", "other text"), ("length", "rows of another length")):
            if before.get(name) != now[name]:
                raise InputError(
                    f"{directory} holds an adaptation to {what}, of {before.get('text')} with "
                    f"adapt_length {before.get('length')}; give that, or another directory."
                )
    write_json(path, now)

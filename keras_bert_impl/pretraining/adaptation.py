"""Domain adaptation: continued masked language modeling on unlabeled text."""

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
    """Continues pre-training a model on text of a domain, before fine-tuning.

    The output directory holds `records` (single segments), `run` (the pre-training run directory)
    and `data.json`. An interrupted call resumes; finished steps are not repeated. The model's
    tokenizer and pooler are kept. If the model has no masked LM head, a new one is initialized,
    with a warning.

    Args:
        model: str or `Path`. A directory or a name; see `interop.open_model`.
        text: str or `Path` of a file or folder, or a `tfds://` name, see `read_documents`; or a
            list or iterator of texts, one document each.
        output_directory: str or `Path`.
        strategy, resume, verbose: see `pretrain`.
        dtype: str. Keras dtype policy.
        seed: int. Seed of the records, masks and dropout.
        progress: see `prepare`.
        **settings: fields of `AdaptationSettings`.

    Returns:
        `Path` of the adapted model's directory.

    Raises:
        InputError: the text, the settings or the model cannot be used, or the directory was created
            from different inputs.

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
        bias_correction=True,  # without it the first steps are several times too large
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
        # The model is written last, so the run is complete.
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
    if of_sentences:  # pooling and normalization of a text embedder
        of_sentences.setdefault("max_length", config.max_length)
        depth, dim = config.num_layers, config.hidden_dim
        projections = read_projections(source.task_path)
        write_sentence_settings(adapted, of_sentences, projections, depth, dim)
    return adapted


def _check_same_text(directory, documents, name, length, resume):
    """Records the text and row length that the records are made from, or compares them.

    Reads the whole text.
    """
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
    # If preparation failed, the recorded text does not restrict later calls.
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

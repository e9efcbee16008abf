"""A resumable pre-training run: from records to a model directory."""

import contextlib
import functools
import hashlib
import json
import logging
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras

from keras_bert_impl.checkpoints.interop import fingerprint
from keras_bert_impl.pretraining.baseline import compare_with_unigram
from keras_bert_impl.pretraining.building import build_pretrainer, make_schedule, masking
from keras_bert_impl.pretraining.examples.records import (
    check_tokenizer,
    clear_read_errors,
    read_manifest,
    read_tokenizer,
)
from keras_bert_impl.pretraining.masking.dataset import checked_objectives
from keras_bert_impl.pretraining.masking.masking import replacement_ids
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.recipes import model_file
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.pretraining.stages import Stage, StageData, plan, step_of, summary
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.optimizers.adamw import EvaluatesAverages, use_averages
from keras_bert_impl.training.optimizers.schedules import SpendsBudget, TimeBudget
from keras_bert_impl.training.runs.checkpoints import EndsOnSigterm, RunCheckpoint
from keras_bert_impl.training.runs.reports import (
    MetricsLog,
    Spike,
    SpikeGuard,
    TrainingProgress,
    matmul_peak,
    remedy_for,
)
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.training.strategy import get_strategy, is_chief
from keras_bert_impl.training.workers import reports_lost_workers
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.io.paths import expanded, local_path
from keras_bert_impl.utils.io.reading import read_bytes, read_json
from keras_bert_impl.utils.progress import print_message

_LOG = logging.getLogger(__name__)
_BEFORE = "before"  # scores of the model from which a run continues


@reports_lost_workers
@known_arguments("pretrain")
def pretrain(
    records: str | Path,
    output_directory: str | Path,
    strategy: Any = "auto",
    resume: bool = True,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
    **fields: Any,
) -> Pretrainer:
    """Pre-trains a model on records and writes a run directory.

    The directory contains `model/` for `from_pretrained` and `transformers`, `recipe.yaml`,
    `metrics.jsonl`, `tensorboard/`, `scores.json` and `checkpoints/`. The scores are computed on
    held-out rows. `unigram/...` are the scores of a baseline that predicts tokens by their
    frequencies, and `before/...` the scores of the model from which the run continues. An
    interrupted run resumes from its newest checkpoint with the same batches, masks and dropout as
    an uninterrupted run. On SIGTERM, the run finishes the current report interval, saves a
    checkpoint and raises `SystemExit(143)`.

    Args:
        records: Folder of records from `prepare`. For a bucket, a str such as
            `gs://bucket/records`.
        output_directory: The run directory.
        strategy: Name of a strategy, or a strategy from `get_strategy`.
        resume: Whether to resume if the directory contains an interrupted run.
        callbacks: Keras callbacks; see `fit`.
        verbose: Output on stderr: 0 for none; 1 (or `"auto"`) for a summary, a progress bar and one
            line per report; 2 for the same without the bar.
        **fields: Fields of `PretrainSettings`.

    Raises:
        InputError: The settings, the records or the model are invalid.

    Example:
        prepare("corpus.txt", "records", tokenizer)
        pretrain("records", "run", model="bert_uncased_L-2_H-128_A-2", total_steps=1000)
    """
    records, output_directory = expanded(records), expanded(output_directory)
    settings = PretrainSettings(**fields)
    stages = plan(records, settings)
    manifests = {stage.records: read_manifest(stage.records) for stage in stages}
    names = checked_objectives(manifests[stages[0].records], settings.objectives)
    devices = get_strategy(strategy)  # Workers must connect before any other use of TensorFlow.
    tokenizer = read_tokenizer(records)
    _check_as_wanted(settings, manifests, tokenizer)
    with devices.scope():
        schedule = make_schedule(settings)
        pretrainer = build_pretrainer(settings, names, tokenizer, schedule)
    for manifest in manifests.values():
        check_tokenizer(manifest, tokenizer)
        _check_fits(pretrainer.encoder.config, manifest, tokenizer)
    _check_tokenizer_of(settings.model, manifests[stages[0].records])
    config = pretrainer.encoder.config
    data = StageData(
        devices,
        input_workers=settings.input_workers,
        seed=settings.seed,
        objectives=names,
        masking=masking(settings),
        tokenizer=tokenizer if config.has_pair_segments else tokenizer.with_one_segment(),
        language_ids=config.num_segments != 1,
    )
    for stage in stages:
        data.check(stage, settings.accumulation_steps)
    is_segmented = any(manifest["settings"].get("segmented") for manifest in manifests.values())
    if settings.mask_unit == "word" and not is_segmented:
        is_word_start = tokenizer.word_starts([replacement_ids(tokenizer)])
        if is_word_start.numpy().all():
            _LOG.warning(
                "mask_unit=word has no effect: no token of the vocabulary continues a word"
            )
    for folder in manifests:
        if os.path.realpath(folder) == os.path.realpath(output_directory):
            raise InputError(f"{output_directory} contains the records; name another folder.")
    # All checks come first, so that an invalid run leaves no files.
    may_change = ("on_spike", "spike_factor", "input_workers")
    read = made_of(settings, manifests) if is_chief() else None
    run = RunDirectory(output_directory, settings, resume, may_change, read)
    if is_chief() and verbose != 0:
        print_message("\n".join(summary(pretrainer, stages, manifests, devices)), sys.stderr)
    training = _Training(pretrainer, settings, stages, manifests, data, schedule, run)
    training.go([*callbacks], verbose)
    scores = training.held_out_scores()
    if scores and is_chief():
        before = read_json(run.data).get(_BEFORE, {})
        if before and verbose != 0:
            change = f"{before['loss']:.4f} before, {scores['loss']:.4f} after"
            print(f"loss on held-out rows: {change}", file=sys.stderr)
        unigram = data.unigram_scores(stages[-1], config.vocabulary_size)
        verdict = compare_with_unigram(scores, unigram)
        run.note({"verdict": {"sentences": verdict}})
        if verbose != 0:
            print(*(f"verdict: {line}" for line in verdict), sep="\n", file=sys.stderr)
        for source, values in ((_BEFORE, before), ("unigram", unigram)):
            scores |= {f"{source}/{name}": value for name, value in values.items()}
        run.write_scores(scores)
    if is_chief():
        pretrainer.save_pretrained(run.model, tokenizer)
    return pretrainer


def is_finished(
    records: str | Path,
    output_directory: str | Path,
    settings: PretrainSettings,
    resume: bool = True,
) -> bool:
    """Returns whether a run is complete. Raises `InputError` for different settings or records."""
    directory = local_path(output_directory)
    if not (directory / "model").is_dir():
        return False
    # The model is written last, so a run with a model is complete.
    read = made_of(settings, {str(records): read_manifest(records)})
    RunDirectory(directory, settings, resume, made_of=read)
    return True


def made_of(
    settings: PretrainSettings, manifests: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns the source and checksum of each input. `manifests` maps folders to manifests."""
    read = {}
    for folder, manifest in manifests.items():
        content = json.dumps(manifest, sort_keys=True).encode()
        read["long records" if folder == str(settings.long_records) else "records"] = {
            "source": str(folder),
            "length": manifest["settings"]["length"],
            "objective": manifest["settings"]["objective"],
            "tokenizer": manifest["tokenizer"]["fingerprint"],
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    for name in ("model", "teacher", "generator"):
        path = getattr(settings, name)
        if isinstance(path, dict):  # The settings already contain the configuration.
            continue
        if path is not None and Path(path).suffix == ".json":
            sha256 = hashlib.sha256(read_bytes(model_file(path))).hexdigest()
        elif path is not None and (name == "teacher" or Path(path).is_dir()):
            sha256 = fingerprint(path)
        else:  # None, or the name of a published configuration
            continue
        read[name] = {"source": str(path), "sha256": sha256}
    return read


class _Training:
    """Trains the stages of a run. Resumes from the newest checkpoint."""

    def __init__(
        self,
        pretrainer: Pretrainer,
        settings: PretrainSettings,
        stages: list[Stage],
        manifests: dict[str, dict[str, Any]],
        data: StageData,
        schedule: keras.optimizers.schedules.LearningRateSchedule,
        run: RunDirectory,
    ) -> None:
        self._pretrainer = pretrainer
        self._settings = settings
        self._stages = stages
        self._manifests = manifests
        self._data = data
        self._budget = schedule if isinstance(schedule, TimeBudget) else None
        self._run = run
        self._step_of = functools.partial(step_of, stages)
        self._guard = SpikeGuard(settings.spike_factor, self._step_of)
        self._checkpoint = RunCheckpoint(
            pretrainer,
            run.checkpoints,
            seed=settings.seed,
            more=self._guard.variables,
            num_epochs=stages[-1].end,
        )
        self._log: MetricsLog | None = None
        self._preemption = EndsOnSigterm()

    def go(self, callbacks: list[keras.callbacks.Callback], verbose: str | int) -> None:
        """Trains all remaining stages and assigns the final weights to the model."""
        finished = self._checkpoint.restore()  # report intervals
        model = self._settings.model
        if not finished and isinstance(model, str) and Path(model).is_dir():
            scores = self.held_out_scores()
            if scores and is_chief():
                self._run.note({_BEFORE: scores})
        progress = TrainingProgress(
            self._stages[-1].end,
            self._step_of,
            self._step_of(finished),
            verbose=verbose if is_chief() else 0,
        )
        with progress:
            self._train(finished, [*callbacks, progress])
        use_averages(self._pretrainer)

    def held_out_scores(self) -> dict[str, float]:
        """Returns the scores on the held-out rows, or an empty dict."""
        held_out, num_batches = self._data.held_out(self._stages[-1])
        if held_out is None:
            return {}
        with clear_read_errors(self._stages[-1].records):
            scores = self._pretrainer.evaluate(
                held_out, steps=num_batches, return_dict=True, verbose=0
            )
        return {name: float(value) for name, value in scores.items()}

    def _train(self, finished, callbacks):
        if not finished and self._settings.on_spike == "skip":
            self._checkpoint.save(0)  # A spike in the first interval rolls back to this checkpoint.
        callbacks = self._build_callbacks(finished) + callbacks
        last = None
        while finished < self._stages[-1].end and not (self._budget and self._budget.is_used_up):
            stage = next(stage for stage in self._stages if finished < stage.end)
            if not stage.same_batches(last):
                # A graph shared by two stages has an unknown batch size.
                self._pretrainer.train_function = self._pretrainer.test_function = None
            if stage != last and stage.begins(finished):
                self._guard.skipped_rows.assign(0)  # No rows of the new records are skipped yet.
            with clear_read_errors(stage.records), self._preemption, self._watch():
                skipped_rows = self._fit(stage, finished, callbacks)
            if self._preemption.has_ended:
                raise SystemExit(128 + signal.SIGTERM)
            seconds_used = self._budget and self._budget.used.numpy()
            finished, last = self._checkpoint.restore(), stage
            # These two are not rolled back with the weights after a spike.
            self._guard.skipped_rows.assign(skipped_rows)
            if self._budget:
                self._budget.used.assign(seconds_used)

    def _build_callbacks(self, finished):
        settings = self._settings
        callbacks = [self._guard, self._checkpoint, self._preemption]
        if is_chief() and finished < self._stages[-1].end:
            replicas = self._pretrainer.distribute_strategy.num_replicas_in_sync
            self._log = MetricsLog(
                self._run,
                settings.report_every,
                settings.total_steps,
                initial_step=self._step_of(finished),
                peak_flops=replicas * matmul_peak(self._pretrainer.encoder.compute_dtype),
                budget=self._budget,
            )
            callbacks.insert(1, self._log)
        if self._budget:
            callbacks.insert(0, SpendsBudget(self._budget))
        if settings.ema is not None:
            callbacks.append(EvaluatesAverages())
        return callbacks

    def _watch(self):
        """Returns a context that ends the run if an input worker stops responding."""
        if not self._settings.input_workers:
            return contextlib.nullcontext()
        from keras_bert_impl.pretraining.input_workers import InputWorkerWatch

        return InputWorkerWatch(self._settings.input_workers)

    def _fit(self, stage, finished, callbacks):
        """Trains to the end of a stage or to a loss spike. Returns the number of skipped rows."""
        settings = self._settings
        manifest = self._manifests[stage.records]
        if self._log:
            self._log.steps_per_epoch = stage.steps
            train = manifest["splits"]["train"]
            self._log.tokens_per_step = train["tokens"] / train["rows"] * stage.batch_size
            self._log.flops_per_token = self._pretrainer.flops(
                manifest["settings"]["length"], settings.mask_rate
            )
        evaluations = self._plan_evaluations(stage)
        held_out, num_batches = self._data.held_out(stage) if evaluations else (None, None)
        skipped_rows = int(self._guard.skipped_rows.numpy())
        try:
            self._pretrainer.fit(
                self._data.train(stage, stage.row(finished) + skipped_rows),
                epochs=stage.end,
                initial_epoch=finished,
                steps_per_epoch=stage.steps,
                validation_data=held_out,
                validation_steps=num_batches,
                validation_freq=evaluations,
                callbacks=callbacks,
                shuffle=False,  # The dataset is already shuffled.
                verbose=0,  # `TrainingProgress` shows the progress.
            )
        except Spike as spike:
            if settings.on_spike == "stop":
                raise InputError(
                    f"{spike}. Resume the run with on_spike=skip, which skips these rows, or start "
                    f"a new run with {remedy_for(self._pretrainer)}."
                ) from spike
            _LOG.warning("%s; rolling back and skipping these %d rows", spike, stage.rows)
            return self._guard.skip(spike, stage.rows)
        return skipped_rows

    def _plan_evaluations(self, stage):
        """Returns the 1-based indices of the intervals after which the model is evaluated."""
        every = self._settings.evaluate_every or self._settings.total_steps
        if every >= self._settings.total_steps:
            return []
        ends = range(stage.first + 1, stage.end + 1)
        return [finished for finished in ends if stage.step(finished) % every == 0]


def _check_as_wanted(settings, manifests, tokenizer):
    """Raises `InputError` if the records do not match the settings or recipe."""
    for records, manifest in manifests.items():
        is_long = records == str(settings.long_records)
        for setting, key, option in (
            ("long_records_length" if is_long else "records_length", "length", "--length {}"),
            ("records_objective", "objective", "--objective {}"),
            ("records_tokenizer", None, "a {} tokenizer"),
        ):
            required = getattr(settings, setting)
            actual = tokenizer.kind if key is None else manifest["settings"][key]
            if required not in (None, actual):
                raise InputError(
                    f"{records}: {setting} is {actual}, but the settings require {required}. Run "
                    f"prepare with {option.format(required)}, or set {setting}={actual}."
                )


def _check_fits(config, manifest, tokenizer):
    if config.vocabulary_size != tokenizer.vocabulary_size:
        raise InputError(
            f"the model has a vocabulary of {config.vocabulary_size} tokens, but the tokenizer of "
            f"the records has {tokenizer.vocabulary_size}. Prepare the records with the model's "
            "tokenizer."
        )
    if config.max_length < manifest["settings"]["length"]:
        raise InputError(
            f"the records have rows of {manifest['settings']['length']} tokens, but the maximum "
            f"of the model is {config.max_length}. Prepare the records with --length "
            f"{config.max_length}."
        )
    languages = manifest["settings"].get("languages", ())
    if 1 < config.num_segments < len(languages):
        raise InputError(
            f"the records have {len(languages)} languages, but the model has embeddings of "
            f"{config.num_segments} segments. Use a model with num_segments={len(languages)}, or "
            "with num_segments=1 for no language embeddings."
        )


def _check_tokenizer_of(model, manifest):
    if isinstance(model, dict):
        return
    try:
        tokenizer = Tokenizer.from_pretrained(Path(model)) if Path(model).is_dir() else None
    except InputError:
        return  # weights only
    if tokenizer is not None:
        check_tokenizer(manifest, tokenizer)

"""Ablations: small pre-training runs that differ in one setting, compared by the score of a task."""

import dataclasses
import gc
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert_impl.experiments.questions import (
    AblationSettings,
    Variant,
    checked_seeds,
    chosen_questions,
    with_defaults,
)
from keras_bert_impl.finetuning import finetune, name_of
from keras_bert_impl.interop import huggingface_config
from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.files import replace_directory, write_json
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.building import build_pretrainer, make_schedule, model_config
from keras_bert_impl.pretraining.corpus.cutting import as_paths
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.corpus.readers import read_documents
from keras_bert_impl.pretraining.recipes import recipes
from keras_bert_impl.pretraining.run import is_finished, pretrain
from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES, PretrainSettings
from keras_bert_impl.reports.ablation_page import write_ablation_page
from keras_bert_impl.reports.run_report import describe_run
from keras_bert_impl.runs.inputs import as_examples, with_named_classes
from keras_bert_impl.runs.run import settings_for, task_with
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.data.examples import LabeledExamples
from keras_bert_impl.tasks.scores.statistics import described_runs
from keras_bert_impl.tokenizers import (
    Tokenizer,
    WordPieceTokenizer,
    learn_wordpiece_vocabulary,
)
from keras_bert_impl.training.runs.run_directory import remove_checkpoints
from keras_bert_impl.training.strategy import num_workers

_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WIDTHS = ("hidden_dim", "num_heads", "intermediate_dim", "embedding_dim")


def ablate(
    corpus: Any,
    train: LabeledExamples | tuple,
    dev: LabeledExamples | tuple,
    output_directory: str | Path,
    questions: Sequence[str] | Mapping[str, Sequence[Variant]] = ("objective",),
    seeds: Sequence[int] = (1, 2, 3),
    recipe: str | dict[str, Any] = "cpu_small",
    tokenizer: Tokenizer | None = None,
    budget: int = AblationSettings.budget,
    vocabulary_size: int = AblationSettings.vocabulary_size,
    strategy: Any = "auto",
    resume: bool = True,
    verbose: int | str = "auto",
    say: Callable[[str], Any] = lambda text: None,
    **options: Any,
) -> dict[str, Any]:
    """Pre-trains small models with different settings and compares the scores of a task.

    A question has several variants, which differ in the objective, the size, the masks, the number
    of steps or the fine-tuning. For each variant and seed, a model is pre-trained on the corpus and
    fine-tuned. Variants with equal settings share their runs.

    The directory contains `records` and, if it was learned, `tokenizer`; the run directories
    `pretraining/NAME` and `finetuning/NAME`, named after the changed settings; `scores.json`, the
    return value of this function; and `report.html`. `scores.json` and `report.html` are written
    after each seed. An interrupted call resumes.

    Args:
        corpus: see `prepare`.
        train, dev: labeled examples of the task; see `finetune`.
        output_directory: directory to write.
        questions: names from `QUESTIONS`, or a dict of your questions, name -> list of `Variant`.
        seeds: seeds of the runs. Pre-training and fine-tuning use the same seed.
        recipe: name of a recipe that trains from scratch, or a dict of `PretrainSettings` fields.
        tokenizer: default: a WordPiece tokenizer that is learned from the corpus.
        budget, vocabulary_size: see `AblationSettings`.
        strategy, resume, verbose: see `finetune`.
        say: function that is called with the seed and the variant of each run.
        **options: fields of `FinetuneSettings`. The default of `learning_rate` is 5e-4. `dtype`
            also applies to pre-training.

    Returns:
        A dict of `metric`, the name of the score, and `questions`, a dict of question -> list with
        a dict for each variant. This dict contains `name`, the name of the variant; `runs`, a dict
        of path -> score; `score`; and `difference`, the score minus the score of the first variant
        with the same seed. `score` and `difference` are dicts of `value`, the mean over the seeds,
        and `low` and `high`, the bounds of the 95% interval by Student's t-distribution (None for
        one seed).

    Raises:
        InputError: the corpus, the examples or a setting is invalid. Settings and examples are
            checked before the first run starts.

    Source of `QUESTIONS`: Devlin et al., "BERT", section 5 and appendix C.

    Example:
        ablate(
            "corpus.txt", (texts, labels), (texts, labels), "ablation", ["nsp"], seeds=[1, 2],
            budget=2, vocabulary_size=300, epochs=1,
        )["questions"]["nsp"][1]["difference"]
    """
    limits = AblationSettings(budget, vocabulary_size)
    seeds = checked_seeds(seeds)
    if num_workers() > 1:
        raise InputError(f"ablations support one worker, not {num_workers()}.")
    directory, asked = local_path(output_directory), chosen_questions(questions)
    if not resume and directory.is_dir() and any(directory.iterdir()):
        raise InputError(f"{directory} is not empty. Choose another directory.")
    train, dev = with_named_classes(as_examples(train, "train"), as_examples(dev, "dev"))
    runs = _Runs(directory, recipe, limits, train, dev, options)
    runs.how = {"strategy": strategy, "verbose": verbose}
    variants = [variant for group in asked.values() for variant in group]
    runs.check(variants)
    runs.prepare(corpus, tokenizer, dict.fromkeys(variant.records for variant in variants))
    for finished, seed in enumerate(seeds, 1):
        for question, group in asked.items():
            for variant in group:
                say(f"seed {seed}, {question}: {variant.name}")
                runs.score(variant, seed)
        summary = {
            "metric": runs.metric,
            "questions": {
                question: _compared(group, runs, seeds[:finished])
                for question, group in asked.items()
            },
        }
        write_json(directory / "scores.json", summary)
        write_ablation_page(summary, directory / "report.html")
    return summary


class _Runs:
    """Trains the variants in an output directory. Equal runs are trained only once."""

    def __init__(
        self,
        directory: Path,
        recipe: str | dict[str, Any],
        limits: AblationSettings,
        train: LabeledExamples,
        dev: LabeledExamples,
        options: dict[str, Any],
    ) -> None:
        if isinstance(recipe, str) and recipe not in recipes():
            raise InputError(f"recipe must be one of {listed(recipes())}. Received: {recipe!r}")
        self._directory = directory
        self._recipe = recipes()[recipe] if isinstance(recipe, str) else recipe
        self._budget, self._vocabulary_size = limits.budget, limits.vocabulary_size
        self._train, self._dev = train, dev
        self._options = with_defaults(options)
        self._scores: dict[str, dict[str, float]] = {}
        self.metric: str | None = None
        self.how: dict[str, Any] = {}

    def check(self, variants: Iterable[Variant]) -> None:
        """Raises `InputError` if a setting is invalid, before anything is written."""
        for variant in variants:
            objectives = self._pretraining(variant, seed=0).objectives or ()
            settings = settings_for(self._train)(model="model", **self._finetuning(variant, 0))
            task = task_with(settings, self._train, self._dev)
            config = dataclasses.replace(self._model(variant), causal="left_to_right" in objectives)
            small = dataclasses.replace(config, num_layers=1, vocabulary_size=len(_TOKENS))
            try:
                huggingface_config(config, task.model_class.head)
                task.model_class(Encoder(small), WordPieceTokenizer(_TOKENS), **task.arguments)
            except InputError as error:
                raise InputError(
                    f"variant {variant.name!r}: {error} Choose another task or recipe."
                ) from error

    def prepare(self, corpus: Any, tokenizer: Tokenizer | None, objectives: Iterable[str]) -> None:
        """Writes the records. If the corpus has changed, existing runs raise an error."""
        with as_paths(corpus) as (paths, format, field):
            self._tokenizer = tokenizer or self._learned(read_documents(paths, format, field))
            self._vocabulary_size = self._tokenizer.vocabulary_size
            for objective in objectives:
                prepare(
                    paths,
                    self._directory / "records" / objective,
                    self._tokenizer,
                    self._recipe.get("records_length") or 128,
                    objective,
                    input_format=format,
                    text_field=field,
                )

    def score(self, variant: Variant, seed: int) -> tuple[str, float]:
        """Returns the path and score of the run of a variant. Trains the run unless it is finished."""
        changes = _changes(variant)
        path = f"finetuning/{_name(changes | variant.finetuning, seed)}"
        if path not in self._scores:
            model = self._pretrained(variant, seed, _name(changes, seed))
            run = self._directory / path
            settings = self._finetuning(variant, seed)
            finetune(model, self._train, self._dev, run, **self.how, **settings)
            self._scores[path] = read_json(run / "scores.json")
            gc.collect()
        self.metric, score = next(iter(self._scores[path].items()))
        return path, score

    def _pretrained(self, variant, seed, name):
        records = self._directory / "records" / variant.records
        run = self._directory / "pretraining" / name
        settings = self._pretraining(variant, seed)
        if not variant.steps:
            names = settings.objectives or RECORDS_OBJECTIVES[variant.records]
            new = build_pretrainer(settings, names, self._tokenizer, make_schedule(settings))
            new.save_pretrained(run / "model", self._tokenizer)
        elif not is_finished(records, run, settings):
            pretrain(records, run, **self.how, **dataclasses.asdict(settings))
            describe_run(run)
        remove_checkpoints(run)
        return run / "model"

    def _pretraining(self, variant, seed):
        steps = max(1, round(self._budget * variant.steps))
        fields = self._recipe | {
            "model": self._model(variant).to_dict(),
            "records_objective": variant.records,
            "total_steps": steps,
            "report_every": min(self._recipe.get("report_every", 100), steps),
            "evaluate_every": None,
            "dtype": self._options.get("dtype", FinetuneSettings.dtype),
            "seed": seed,
        }
        return PretrainSettings(**fields | variant.pretraining)

    def _model(self, variant):
        config = model_config(self._recipe.get("model", PretrainSettings.model))
        sizes = {name: getattr(config, name) for name in _WIDTHS}
        changes = {name: int(size * variant.width) for name, size in sizes.items() if size}
        changes["num_layers"] = int(config.num_layers * variant.layers)
        return dataclasses.replace(config, vocabulary_size=self._vocabulary_size, **changes)

    def _finetuning(self, variant, seed):
        return self._options | variant.finetuning | {"seed": seed}

    def _learned(self, documents):
        texts = (text for document in documents for text in document.paragraphs)
        vocabulary = learn_wordpiece_vocabulary(texts, self._vocabulary_size)
        with replace_directory(self._directory / "tokenizer") as temporary:
            WordPieceTokenizer(vocabulary).save_pretrained(temporary)
        return WordPieceTokenizer(vocabulary)


def _changes(variant):
    """Returns the pre-training settings of a variant that differ from the defaults."""
    sizes = {name: getattr(variant, name) for name in ("records", "steps", "layers", "width")}
    changed = {name: size for name, size in sizes.items() if size != getattr(Variant, name)}
    return changed | variant.pretraining


def _name(changes, seed):
    shown = {
        key: "+".join(map(str, value)) if isinstance(value, (tuple, list)) else value
        for key, value in changes.items()
    }
    return name_of(shown | {"seed": seed})


def _compared(group, runs, seeds):
    scores = [dict(runs.score(variant, seed) for seed in seeds) for variant in group]
    first = [*scores[0].values()]
    return [
        {
            "name": variant.name,
            "runs": of_seeds,
            "score": described_runs([*of_seeds.values()]),
            "difference": described_runs([*map(operator.sub, of_seeds.values(), first)]),
        }
        for variant, of_seeds in zip(group, scores, strict=True)
    ]

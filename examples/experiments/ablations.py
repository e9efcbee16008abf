"""Compares pre-training objectives, model sizes and masks in small runs, by the score of a task.

    python -m examples.experiments.ablations --corpus wiki.txt --questions objective,size \\
        --train train.csv --dev dev.csv --text review --label stars --out ablation
"""

import dataclasses
import gc
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from examples.experiments.arguments import parser_of, print_table, run, shown
from keras_bert_impl import (
    Encoder,
    InputError,
    Tokenizer,
    WordPieceTokenizer,
    finetune,
    learn_wordpiece_vocabulary,
    prepare,
    pretrain,
)
from keras_bert_impl.checkpoints.interop import huggingface_config
from keras_bert_impl.data.scores.statistics import described_runs
from keras_bert_impl.pretraining import read_documents
from keras_bert_impl.pretraining.building import build_pretrainer, make_schedule, model_config
from keras_bert_impl.pretraining.recipes import recipes
from keras_bert_impl.pretraining.run import is_finished
from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES, PretrainSettings
from keras_bert_impl.reports import page
from keras_bert_impl.reports.run_report import describe_run
from keras_bert_impl.runs.run import settings_for, task_with
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.training.runs.run_directory import remove_checkpoints

_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WIDTHS = ("hidden_dim", "num_heads", "intermediate_dim", "embedding_dim")
_NOTE = (
    "Each score is the mean over the seeds, with a 95% interval by Student's t-distribution. Each "
    "variant is compared with the variant in the first row, by the differences between runs with "
    "the same seed. If the interval of a difference contains 0, the difference may be due to "
    "chance."
)


@dataclasses.dataclass(frozen=True)
class Variant:
    """One of the variants that a question of `ablate` compares.

    Attributes:
        name: name in the results.
        pretraining: changed fields of `PretrainSettings`.
        finetuning: changed fields of `FinetuneSettings`.
        records: objective of `prepare`.
        steps: factor for the number of pre-training steps; 0 for random weights.
        layers: factor for the number of layers.
        width: factor for the number of attention heads and for all dimensions.
    """

    name: str
    pretraining: dict[str, Any] = dataclasses.field(default_factory=dict)
    finetuning: dict[str, Any] = dataclasses.field(default_factory=dict)
    records: str = "mlm"
    steps: float = 1.0
    layers: float = 1.0
    width: float = 1.0


_CAUSAL = {"objectives": ("left_to_right",)}
_PAIRS = {"objectives": ("masked_lm", "next_sentence")}
_HEAD = {"tuning": "head", "learning_rate": None}

# Question -> variants. All variants are compared with the first variant.
QUESTIONS: dict[str, tuple[Variant, ...]] = {
    # Devlin et al., section 5.1
    "objective": (
        Variant("masked LM"),
        Variant("left to right", _CAUSAL),
        Variant("random weights", steps=0),
    ),
    "nsp": (
        Variant("masked LM on pairs", {"objectives": ("masked_lm",)}, records="mlm_nsp"),
        Variant("masked LM and next sentence", _PAIRS, records="mlm_nsp"),
    ),
    # section 5.2
    "size": (
        Variant("all layers and dimensions"),
        Variant("half the layers", layers=0.5),
        Variant("half the width", width=0.5),
        Variant("half of both", layers=0.5, width=0.5),
    ),
    # section 5.3
    "features": (
        Variant("fine-tuned"),
        Variant("features: only the head is trained", finetuning=_HEAD),
        Variant("random weights, fine-tuned", steps=0),
        Variant("random weights, only the head is trained", finetuning=_HEAD, steps=0),
    ),
    # appendix C.1
    "steps": (
        Variant("masked LM, all steps"),
        Variant("masked LM, 1/2 of the steps", steps=0.5),
        Variant("masked LM, 1/4 of the steps", steps=0.25),
        Variant("left to right, all steps", _CAUSAL),
        Variant("left to right, 1/2 of the steps", _CAUSAL, steps=0.5),
        Variant("left to right, 1/4 of the steps", _CAUSAL, steps=0.25),
    ),
    # appendix C.2
    "masks": (
        Variant("80% [MASK], 10% random, 10% unchanged"),
        Variant("100% [MASK]", {"mask_split": (1.0, 0.0, 0.0)}),
        Variant("100% random", {"mask_split": (0.0, 1.0, 0.0)}),
    ),
}


def ablate(
    corpus: Any,
    train: Any,
    dev: Any,
    output_directory: str | Path,
    questions: Sequence[str] | Mapping[str, Sequence[Variant]] = ("objective",),
    seeds: Sequence[int] = (1, 2, 3),
    recipe: str | dict[str, Any] = "cpu_small",
    tokenizer: Tokenizer | None = None,
    budget: int = 1600,
    vocabulary_size: int = 8192,
    say: Callable[[str], Any] = print,
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
        corpus: text file or folder, or a list of them; see `prepare`.
        train, dev: labeled examples from a reader such as `read_table`.
        questions: names from `QUESTIONS`, or a dict of your questions, name -> list of `Variant`.
        seeds: seeds of the runs. Pre-training and fine-tuning use the same seed.
        recipe: name of a recipe that trains from scratch, or a dict of `PretrainSettings` fields.
        tokenizer: default: a WordPiece tokenizer that is learned from the corpus.
        budget: number of pre-training steps of a run.
        vocabulary_size: number of tokens to learn from the corpus, if there is no tokenizer.
        **options: fields of `FinetuneSettings`. The default of `learning_rate` is 5e-4. `dtype`
            also applies to pre-training.

    Returns:
        A dict of `metric`, the name of the score, and `questions`, a dict of question -> list with
        a dict for each variant. This dict contains `name`, the name of the variant; `runs`, a dict
        of path -> score; `score`; and `difference`, the score minus the score of the first variant
        with the same seed. `score` and `difference` are dicts of `value`, the mean over the seeds,
        and `low` and `high`, the bounds of the 95% interval by Student's t-distribution (None for
        one seed).

    Source of `QUESTIONS`: Devlin et al., "BERT", section 5 and appendix C.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds must be different numbers. Received: {list(seeds)}")
    for name, value, least in (("budget", budget, 1), ("vocabulary_size", vocabulary_size, 300)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}.")
    for name in ("model", "seed"):
        if name in options:
            raise InputError(f"leave out {name}: ablations set the model and the seed of each run.")
    directory, asked = Path(output_directory), _chosen(questions)
    options = {"learning_rate": 5e-4} | options
    runs = _Runs(directory, recipe, budget, vocabulary_size, train, dev, options)
    variants = [variant for group in asked.values() for variant in group]
    runs.check(variants)
    runs.prepare(corpus, tokenizer, dict.fromkeys(variant.records for variant in variants))
    for finished, seed in enumerate(seeds, 1):
        for question, group in asked.items():
            for variant in group:
                say(f"seed {seed}, {question}: {variant.name}")
                runs.score(variant, seed)
        compared = {name: _compared(group, runs, seeds[:finished]) for name, group in asked.items()}
        summary = {"metric": runs.metric, "questions": compared}
        (directory / "scores.json").write_text(json.dumps(summary, indent=2))
        _write_page(summary, directory / "report.html")
    return summary


def _chosen(questions):
    """Returns {question: variants}."""
    if isinstance(questions, Mapping):
        return questions
    for name in questions:
        if name not in QUESTIONS:
            raise InputError(f"questions are {', '.join(QUESTIONS)}. Received: {name!r}")
    return {name: QUESTIONS[name] for name in questions}


class _Runs:
    """Trains the variants in an output directory. Equal runs are trained only once."""

    def __init__(
        self,
        directory: Path,
        recipe: str | dict[str, Any],
        budget: int,
        vocabulary_size: int,
        train: Any,
        dev: Any,
        options: dict[str, Any],
    ) -> None:
        if isinstance(recipe, str) and recipe not in recipes():
            raise InputError(f"recipe must be one of {', '.join(recipes())}. Received: {recipe!r}")
        self._directory = directory
        self._recipe = recipes()[recipe] if isinstance(recipe, str) else recipe
        self._budget, self._vocabulary_size = budget, vocabulary_size
        self._train, self._dev, self._options = train, dev, options
        self._scores: dict[str, dict[str, float]] = {}
        self.metric: str | None = None

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
        self._tokenizer = tokenizer or self._learned(read_documents(corpus))
        self._vocabulary_size = self._tokenizer.vocabulary_size
        length = self._recipe.get("records_length") or 128
        for objective in objectives:
            prepare(
                corpus, self._directory / "records" / objective, self._tokenizer, length, objective
            )

    def score(self, variant: Variant, seed: int) -> tuple[str, float]:
        """Returns the path and score of the run of a variant. Trains the run unless it is finished."""
        changes = _changes(variant)
        path = f"finetuning/{_name(changes | variant.finetuning, seed)}"
        if path not in self._scores:
            model = self._pretrained(variant, seed, _name(changes, seed))
            run = self._directory / path
            settings = self._finetuning(variant, seed)
            finetune(model, self._train, self._dev, run, **settings)
            self._scores[path] = json.loads((run / "scores.json").read_text())
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
            pretrain(records, run, **dataclasses.asdict(settings))
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
        WordPieceTokenizer(vocabulary).save_pretrained(self._directory / "tokenizer")
        return WordPieceTokenizer(vocabulary)


def _changes(variant):
    """Returns the pre-training settings of a variant that differ from the defaults."""
    sizes = {name: getattr(variant, name) for name in ("records", "steps", "layers", "width")}
    changed = {name: size for name, size in sizes.items() if size != getattr(Variant, name)}
    return changed | variant.pretraining


def _name(changes, seed):
    """Returns the folder name of settings, such as `steps=0.5,seed=1`."""
    shown = {
        key: "+".join(map(str, value)) if isinstance(value, (tuple, list)) else value
        for key, value in (changes | {"seed": seed}).items()
    }
    return ",".join(f"{key}={value}" for key, value in shown.items())


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


def _write_page(summary, path):
    metric = summary["metric"]
    headings = ["variant", metric, "difference", "seeds"]
    sections = []
    for question, variants in summary["questions"].items():
        rows = [[*_cells(variant), len(variant["runs"])] for variant in variants]
        table = page.table(headings, rows)
        sections.append(page.Section(question, table + page.paragraph(_NOTE)))
    page.save_page(path, page.page("Ablations", page.escape(metric), sections))


def _cells(variant):
    return [variant["name"], shown(variant["score"]), shown(variant["difference"], "+")]


def _run(arguments, train, dev, settings):
    names = ("corpus", "questions", "seeds", "recipe", "budget", "vocabulary_size")
    how = {name: vars(arguments)[name] for name in names}
    if arguments.recipe.endswith((".yaml", ".yml")):
        how["recipe"] = yaml.safe_load(Path(arguments.recipe).read_text(encoding="utf-8"))
    if arguments.tokenizer:
        how["tokenizer"] = Tokenizer.from_pretrained(arguments.tokenizer)
    found = ablate(train=train, dev=dev, output_directory=arguments.out, **how, **settings)
    for question, variants in found["questions"].items():
        print_table([[question, found["metric"], "difference"], *map(_cells, variants)])
    print(f"wrote the runs to {arguments.out}; report.html compares them")


def main(argv: list[str] | None = None) -> None:
    parser = parser_of("examples.experiments.ablations", __doc__)
    parser.add_argument("--corpus", required=True, nargs="+", help="files or folders of text")
    parser.add_argument(
        "--questions",
        type=lambda text: text.split(","),
        default=["objective"],
        help=f"questions to answer, from {', '.join(QUESTIONS)}",
    )
    parser.add_argument(
        "--pretraining",
        dest="recipe",
        default="cpu_small",
        help="recipe or YAML file of pre-training",
    )
    parser.add_argument("--tokenizer", help="model directory or name; default: learned tokenizer")
    parser.add_argument("--budget", type=int, default=1600, help="pre-training steps of a run")
    parser.add_argument("--vocabulary-size", type=int, default=8192, help="tokens to learn")
    run(parser, argv, _run)


if __name__ == "__main__":
    main()

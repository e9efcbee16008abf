"""`keras-bert finetune` and `keras-bert augment`."""

import dataclasses
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import (
    GRID,
    MODEL,
    OUTPUT_FILE,
    PATH,
    add_run,
    check_model,
    check_run,
    positive_int,
    prepared_strategy,
    print_json,
    print_line,
    print_scores,
    print_table,
    say,
    whole_numbers,
)
from keras_bert_impl.cli.examples import (
    GLUE,
    add_examples,
    check_examples,
    check_tables,
    needed_files,
    read_examples,
    read_files,
    read_more,
    read_train_and_dev,
    read_whole,
)
from keras_bert_impl.cli.parser import Command, Rare
from keras_bert_impl.cli.remembered import options_of, with_columns_of_run
from keras_bert_impl.cli.settings import add_settings, given_settings, read_grid
from keras_bert_impl.pretraining.settings import AdaptationSettings
from keras_bert_impl.runs.settings import PAPER_GRID, FinetuneSettings, with_settings_of
from keras_bert_impl.tasks.names import registered_tasks
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_json

_MAIN = (
    "epochs", "batch_size", "learning_rate", "max_length", "tuning", "keep_best", "dtype", "seed",
)  # fmt: skip
_PAPER = "paper"


@dataclasses.dataclass(frozen=True)
class _Settings(FinetuneSettings, AdaptationSettings):
    """Settings of `keras-bert finetune`, for the help and for value checks."""


def _build_settings_class(kind: type = _Settings) -> type:
    return with_settings_of(kind, *registered_tasks())


class Finetune(Command):
    kept = "The last checkpoint is in {out}."

    words = ("model", "train")
    example = (
        "  keras-bert finetune --model DIR --train all.csv --dev-split 0.1 \\\n"
        "      --text body --label tag --out run\n"
        "  keras-bert finetune --model run --train october.csv november.csv \\\n"
        "      --dev run --out run-2\n"
        "  keras-bert finetune --model DIR --task mrpc --data glue --out sweep --sweep"
    )

    @property
    def settings_class(self) -> type:
        return _build_settings_class()

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_run(parser, "model and output")
        group.add_argument(
            "--model",
            type=MODEL,
            metavar="MODEL",
            help="model directory or published name to start from",
        )
        group.add_argument("--json", action="store_true", help="print the scores as JSON")
        add_examples(parser, is_training=True)
        add_settings(parser, self.settings_class, main=_MAIN)
        group = parser.add_argument_group(Rare("several runs, adaptation and checkpoints"))
        group.add_argument(
            "--seeds",
            type=whole_numbers,
            metavar="1,2,3",
            help="train with each of these seeds, and write all scores and the best model",
        )
        group.add_argument(
            "--folds",
            type=positive_int,
            metavar="N",
            help="N-fold cross-validation on --train; write the scores of all models and the "
            "predictions for all examples",
        )
        grid = ", ".join(f"{key} {values}" for key, values in PAPER_GRID.items())
        group.add_argument(
            "--sweep",
            nargs="?",
            const=_PAPER,
            type=GRID,
            metavar="FILE.yaml",
            help=f"train with each combination of settings, and compare the models on --dev; a "
            "line of the file is `setting: [value, ...]`; default: the grid of the BERT paper, "
            f"{grid}",
        )
        group.add_argument(
            "--adapt",
            type=PATH,
            metavar="TEXT",
            help="file or directory of unlabeled text for continued pre-training before "
            "fine-tuning; the names of its settings start with adapt_",
        )
        group.add_argument(
            "--keep-checkpoints", action="store_true", help="keep the checkpoints of a finished run"
        )

    def needed(self, arguments: Namespace) -> list[str]:
        return needed_files(arguments) + ([] if arguments.recipe else ["model"])

    def check(self, arguments: Namespace) -> None:
        check_run(arguments)
        _check_glue(arguments)
        _check_folds(arguments)
        vars(arguments).update(vars(with_columns_of_run(arguments)))
        check_examples(arguments)
        _, settings, _ = _resolve(arguments)
        for name in ("model", "teacher"):
            check_model(name, settings.get(name))

    def check_files(self, arguments: Namespace) -> None:
        check_tables(arguments)
        read_files(arguments)

    def run(self, arguments: Namespace) -> None:
        if arguments.folds or arguments.task == GLUE:
            _run_several(arguments)
            return
        grid, settings, adaptation_settings = _resolve(arguments)
        train, dev = read_train_and_dev(arguments, settings.get("seed", FinetuneSettings.seed))
        more_dev = read_more(arguments)
        from keras_bert_impl.data.tables.published import TASKS
        from keras_bert_impl.finetuning.finetune import combinations, finetune, finetune_set
        from keras_bert_impl.runs.run import settings_for, task_with
        from keras_bert_impl.training.strategy import is_chief

        out = Path(arguments.out)
        how = {"strategy": prepared_strategy(arguments), "resume": arguments.resume}
        if arguments.adapt:
            # Invalid fine-tuning settings must raise before the adaptation, which is slow.
            for _, run_settings in combinations(grid, settings, settings_for(train)).values():
                task_with(run_settings, train, dev)
            settings["model"] = _train_adapted(
                arguments.adapt, out / "adapt", settings, adaptation_settings, how
            )
        how["keep_checkpoints"] = arguments.keep_checkpoints
        how["read_with"] = options_of(arguments, settings.get("seed", FinetuneSettings.seed))
        if grid:
            finetune_set(
                train=train,
                dev=dev,
                output_directory=out,
                grid=grid,
                more_dev=more_dev,
                say=say,
                **how,
                **settings,
            )
        else:
            finetune(
                train=train, dev=dev, output_directory=out, more_dev=more_dev, **how, **settings
            )
        if not is_chief():
            return  # Only the chief writes and reports the result.
        scores = read_json(out / "scores.json")
        if arguments.json:
            print_json(scores)
        elif grid:
            _print_groups(scores)
        else:
            print_scores(scores)
        say(f"wrote the model to {out / 'model'}")
        if arguments.task in TASKS:
            from keras_bert_impl.finetuning.glue import write_glue_tests

            write_glue_tests(arguments.task, out, arguments.data, say=say)


def _check_folds(arguments):
    if not arguments.folds:
        return
    if arguments.folds < 2:
        raise InputError("--folds N needs at least 2 folds.")
    if arguments.dates:
        raise InputError(
            "--dates cannot be combined with --folds: cross-validation holds out each example once."
        )
    names = ("dev", "data", "dev_split", "seeds", "sweep", "adapt")
    _refuse_options(arguments, names, "--folds splits --train and trains one model per fold")
    arguments.dev_split = 1 / arguments.folds  # held-out examples of each fold


def _check_glue(arguments):
    if arguments.task != GLUE:
        return
    if not arguments.data:
        raise InputError("--task glue requires --data DIR, the folder of CoLA, SST-2, ...")
    names = ("train", "dev", "dev_split", "tfds", "folds", "adapt")
    _refuse_options(arguments, names, "--task glue trains one model per task in --data")


def _refuse_options(arguments, names, reason):
    for name in names:
        if getattr(arguments, name):
            raise InputError(f"{reason}: leave out --{name.replace('_', '-')}.")


def _run_several(arguments):
    """Cross-validates a model or fine-tunes it on GLUE; prints mean and spread of the scores."""
    grid, settings, _ = _resolve(arguments)
    settings |= {"strategy": prepared_strategy(arguments), "resume": arguments.resume}
    settings |= {"keep_checkpoints": arguments.keep_checkpoints, "say": say}
    if arguments.folds:
        examples = read_whole(arguments)
        from keras_bert_impl.finetuning.cross_validation import cross_validate

        settings |= {"examples": examples, "folds": arguments.folds}
        scores = cross_validate(output_directory=arguments.out, **settings)
        title, spreads = "metric", scores["scores"]
        hint = "to get a model for use, train on all examples"
    else:
        from keras_bert_impl.finetuning.glue import finetune_glue

        settings |= {"grid": grid, "skip_bad_rows": arguments.skip_bad_rows}
        scores = finetune_glue(data=arguments.data, output_directory=arguments.out, **settings)
        title = "task"
        spreads = {name: task["score"] for name, task in scores["tasks"].items()}
        spreads["average"] = scores["average"]
        hint = "report.html compares them"
    if arguments.json:
        print_json(scores)
    else:
        _print_spreads(title, spreads)
        pooled = [f"{name} {value:.4f}" for name, value in scores.get("pooled", {}).items()]
        if pooled:
            print_line(f"all folds together: {', '.join(pooled)}")
    say(f"wrote the runs to {arguments.out}; {hint}")


def _resolve(arguments):
    """Returns (values to try for each setting, settings of all runs, settings of `--adapt`)."""
    values = given_settings(arguments, _build_settings_class())
    grid = {} if arguments.sweep is None else _resolve_grid(arguments.sweep)
    if arguments.seeds is not None:
        if "seed" in grid:
            raise InputError(
                f"--seeds and {arguments.sweep} both contain seeds. Leave out one of them."
            )
        grid["seed"] = arguments.seeds
    for key, text in arguments.options.items():
        if key in grid:
            raise InputError(
                f"--{key.replace('_', '-')} {text}: --sweep or --seeds also sets {key}. Leave "
                "out one of them."
            )
    values["model"] = arguments.model or values.get("model")
    if not values["model"]:
        raise InputError("--model DIR, the model to start from, is missing.")
    adaptation_settings = {key: value for key, value in values.items() if key.startswith("adapt_")}
    if adaptation_settings and not arguments.adapt:
        raise InputError(f"{next(iter(adaptation_settings))} requires --adapt TEXT.")
    AdaptationSettings(**adaptation_settings)
    settings = {k: v for k, v in values.items() if k not in adaptation_settings and k not in grid}
    if not grid:
        _build_settings_class(FinetuneSettings)(**settings)
    return grid, settings, adaptation_settings


def _resolve_grid(name):
    if name == _PAPER:
        return dict(PAPER_GRID)
    if not name.endswith((".yaml", ".yml")):
        raise InputError(f"--sweep {name}: pass a YAML file.")
    return read_grid(name, _build_settings_class(FinetuneSettings))


def _train_adapted(text, directory, settings, adaptation_settings, how):
    from keras_bert_impl.pretraining.adaptation import adapt
    from keras_bert_impl.reports.run_report import describe_run

    common = {name: settings[name] for name in ("dtype", "seed") if name in settings}
    adapted = adapt(settings["model"], text, directory, **how, **common, **adaptation_settings)
    describe_run(adapted.parent)
    return str(adapted)


def _print_groups(summary):
    """Prints a table with one row per group.

    If there is only one group, the table has one row per metric.
    """
    from keras_bert_impl.finetuning.finetune import name_of

    groups, metric = summary["groups"], summary["metric"]
    if len(groups) == 1:
        title, rows = "metric", groups[0]["scores"]
    else:
        title = metric
        rows = {name_of(group["settings"]): group["scores"][metric] for group in groups}
    _print_spreads(title, rows)
    print_line(f"best by {metric} on the validation set: {summary['best']}")


def _print_spreads(title, rows):
    columns = ("mean", "std", "min", "max")
    print_table(
        [
            {"name": name} | {c: "-" if spread[c] is None else f"{spread[c]:.4f}" for c in columns}
            for name, spread in rows.items()
        ],
        {"name": title} | {column: column for column in columns},
    )


class Augment(Command):
    words = ("model", "train")
    example = (
        "  keras-bert augment --model DIR --train train.csv \\\n"
        "      --text review --label stars --out more.jsonl\n"
        "  keras-bert augment --model DIR --task mrpc --data glue --out more.jsonl"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("model and output")
        group.add_argument(
            "--model",
            required=True,
            type=MODEL,
            metavar="MODEL",
            help="masked language model that predicts the replacements",
        )
        group.add_argument(
            "--out", required=True, type=OUTPUT_FILE, metavar="FILE.jsonl", help="file to write"
        )
        add_examples(parser, is_training=True, is_scored=False)
        group = parser.add_argument_group("copies")
        group.add_argument(
            "--copies",
            type=positive_int,
            default=20,
            metavar="N",
            help="number of copies of each text",
        )
        group.add_argument(
            "--rate",
            type=float,
            default=0.4,
            metavar="X",
            help="fraction of words to replace",
        )
        group.add_argument(
            "--top-k",
            type=positive_int,
            default=15,
            metavar="N",
            help="number of candidates for each replacement",
        )
        group.add_argument(
            "--seed", type=int, default=0, metavar="N", help="seed of random choices"
        )

    def needed(self, arguments: Namespace) -> list[str]:
        return needed_files(arguments)[:1]

    def check(self, arguments: Namespace) -> None:
        if Path(arguments.out).suffix != ".jsonl":
            raise InputError(f"--out must end in .jsonl. Received: {arguments.out}")
        check_examples(arguments, are_written=True)

    def check_files(self, arguments: Namespace) -> None:
        check_tables(arguments)

    def run(self, arguments: Namespace) -> None:
        examples = read_examples(arguments, "train")
        from keras_bert_impl.tasks.language_modeling.augmentation import augment, write_examples
        from keras_bert_impl.tasks.language_modeling.model import MaskedLM

        augmented = augment(
            MaskedLM.from_pretrained(arguments.model),
            examples,
            arguments.copies,
            arguments.rate,
            arguments.top_k,
            arguments.seed,
        )
        names = {name: getattr(arguments, name) or name for name in ("text", "pair", "label")}
        if not isinstance(augmented.texts[0], tuple):
            names["pair"] = None
        write_examples(arguments.out, augmented, **names)
        say(f"wrote {len(augmented):,} texts, from {len(examples):,} examples, to {arguments.out}")

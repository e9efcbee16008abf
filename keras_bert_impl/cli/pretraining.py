"""`keras-bert clean`, `pretrain`, `recipes`, `adapt` and `input-worker`."""

import dataclasses
import socket
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from keras_bert_impl.cli.common import (
    FOLDER,
    MODEL,
    OUTPUT_FILE,
    PATH,
    RECIPE,
    add_documents,
    add_run,
    check_model,
    check_run,
    positive_int,
    prepared_strategy,
    print_json,
    print_table,
    say,
    say_skipped,
)
from keras_bert_impl.cli.parser import Command, suggestion
from keras_bert_impl.cli.settings import add_settings, resolve_settings
from keras_bert_impl.pretraining.recipes import recipe_text, recipes
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_json
from keras_bert_impl.utils.progress import Progress

_PRETRAIN_MAIN = (
    "model", "total_steps", "batch_size", "learning_rate", "warmup_steps", "schedule", "objectives",
    "mask_unit", "mask_rate", "optimizer", "dtype", "seed",
)  # fmt: skip


class Clean(Command):
    example = (
        "  keras-bert clean pages/ --out clean.jsonl\n"
        "  keras-bert clean crawl.jsonl --out clean.jsonl --languages en,de"
    )
    tensorflow_alone = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_documents(parser)
        group = parser.add_argument_group("output")
        group.add_argument(
            "--out", required=True, type=OUTPUT_FILE, metavar="FILE", help=".jsonl file to write"
        )
        group.add_argument("--json", action="store_true", help="print the counts as JSON")
        group = parser.add_argument_group("cleaning")
        group.add_argument(
            "--languages",
            type=lambda text: tuple(text.split(",")),
            default=[],
            metavar="CODES",
            help="languages to keep, such as en,de (ISO 639-1 codes); default: all",
        )
        group.add_argument(
            "--near-duplicates",
            type=float,
            default=0.8,
            metavar="SIMILARITY",
            help="minimum Jaccard similarity between near-duplicates",
        )
        group.add_argument(
            "--workers",
            type=positive_int,
            metavar="N",
            help="number of processes; default: the number of cores",
        )

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.pretraining import clean

        with Progress("cleaning", unit="documents") as progress:
            counts = clean(
                arguments.text,
                arguments.out,
                languages=arguments.languages,
                near_duplicates=arguments.near_duplicates,
                input_format=arguments.format,
                text_field=arguments.text_field,
                num_workers=arguments.workers,
                progress=progress.update,
            )
        if arguments.json:
            print_json(counts)
            return
        say_skipped(counts["unreadable"])
        rows = [{"step": name} | step_counts for name, step_counts in counts["steps"].items()]
        print_table(
            rows,
            {
                "step": "step",
                "removed": "documents removed",
                "changed": "documents changed",
                "characters": "characters removed",
            },
        )
        read, written = counts["read"], counts["written"]
        print(
            f"wrote {written['documents']:,} of {read['documents']:,} documents, "
            f"{written['characters']:,} of {read['characters']:,} characters"
        )


class Pretrain(Command):
    kept = "The last checkpoint is in {out}."

    example = (
        "  keras-bert pretrain records --out run --model bert_uncased_L-4_H-256_A-4\n"
        "  keras-bert pretrain records --out run --recipe electra_small --batch-size 256"
    )
    settings_class = PretrainSettings

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("records")
        group.add_argument(
            "records",
            type=FOLDER,
            help="the --out of `keras-bert prepare`, or gs://bucket/records",
        )
        add_run(parser).add_argument("--json", action="store_true", help="print the scores as JSON")
        add_settings(parser, PretrainSettings, recipes(), _PRETRAIN_MAIN)

    def check(self, arguments: Namespace) -> None:
        check_run(arguments)
        settings = resolve_settings(arguments, PretrainSettings, recipes())
        for name in ("model", "teacher", "generator"):
            check_model(name, getattr(settings, name))

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.pretraining.run import pretrain
        from keras_bert_impl.reports.run_report import describe_run
        from keras_bert_impl.training.strategy import is_chief

        settings = resolve_settings(arguments, PretrainSettings, recipes())
        pretrain(
            arguments.records,
            arguments.out,
            strategy=prepared_strategy(arguments),
            resume=arguments.resume,
            **dataclasses.asdict(settings),
        )
        if not is_chief():
            return  # Only the chief writes and reports the result.
        describe_run(arguments.out)
        say(f"wrote the model to {Path(arguments.out) / 'model'}")
        scores = Path(arguments.out) / "scores.json"
        if arguments.json and scores.exists():
            print_json(read_json(scores))


class Recipes(Command):
    example = "  keras-bert recipes\n  keras-bert recipes electra_small > mine.yaml"
    uses_tensorflow = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", type=RECIPE, help="recipe to print as YAML")
        parser.add_argument("--json", action="store_true", help="print all settings as JSON")

    def run(self, arguments: Namespace) -> None:
        catalog = recipes()
        if arguments.name not in (None, *catalog):
            hint = suggestion(arguments.name, catalog) or f"choose from {', '.join(catalog)}."
            raise InputError(f"there is no recipe {arguments.name!r}; {hint}")
        if arguments.json:
            print_json(catalog if arguments.name is None else catalog[arguments.name])
        elif arguments.name is not None:
            print(recipe_text(arguments.name), end="")
        else:
            rows = [_describe_recipe(name, recipe) for name, recipe in catalog.items()]
            print_table(rows, {key: key for key in rows[0]})


def _describe_recipe(name, recipe):
    lengths = recipe["records_length"], recipe.get("long_records_length")
    return {
        "name": name,
        "model": recipe["model"].rpartition("/")[2],
        "steps": recipe["total_steps"],
        "rows": recipe["batch_size"],
        "length": " + ".join(str(length) for length in lengths if length),
        "objectives": ", ".join(recipe["objectives"]),
        "records": recipe["records_objective"],
        "tokenizer": recipe["records_tokenizer"],
    }


@dataclasses.dataclass(frozen=True)
class _Settings(AdaptationSettings):
    """Precision and seed.

    Args:
        dtype: Dtype policy of Keras, such as `"mixed_bfloat16"`.
        seed: Seed of all random choices.
    """

    dtype: str = "float32"
    seed: int = 1


class Adapt(Command):
    kept = "The last checkpoint is in {out}."

    words = ("model", "text")
    example = (
        "  keras-bert adapt --model DIR corpus.txt --out adapted --adapt-steps 5000\n"
        "  keras-bert finetune --model adapted/run/model --out run \\\n"
        "      --train train.csv --dev dev.csv --text review --label stars"
    )
    settings_class = _Settings

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("text and model")
        group.add_argument(
            "text", type=PATH, help="unlabeled text: a file, a directory or a tfds:// name"
        )
        group.add_argument(
            "--model",
            required=True,
            type=MODEL,
            metavar="MODEL",
            help="model directory or published name to train further",
        )
        add_run(parser)
        add_settings(
            parser, _Settings, main=[field.name for field in dataclasses.fields(_Settings)]
        )

    def check(self, arguments: Namespace) -> None:
        check_run(arguments)
        resolve_settings(arguments, _Settings)

    def run(self, arguments: Namespace) -> None:
        settings = resolve_settings(arguments, _Settings)
        from keras_bert_impl.pretraining.adaptation import adapt
        from keras_bert_impl.reports.run_report import describe_run
        from keras_bert_impl.training.strategy import is_chief

        adapted = adapt(
            arguments.model,
            arguments.text,
            arguments.out,
            strategy=prepared_strategy(arguments),
            resume=arguments.resume,
            **dataclasses.asdict(settings),
        )
        if is_chief():
            describe_run(Path(arguments.out) / "run")
        say(f"wrote the model to {adapted}")


class InputWorker(Command):
    example = "  keras-bert input-worker --port 5050"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host",
            metavar="NAME",
            help="name or address at which other machines can reach this machine; default: the "
            "host name",
        )
        parser.add_argument(
            "--port",
            type=positive_int,
            default=5050,
            metavar="N",
            help="port to listen on; the next port, N + 1, is also used",
        )

    def run(self, arguments: Namespace) -> None:
        host = arguments.host or socket.gethostname()
        server = start(host, arguments.port)
        say(f"--input-workers [grpc://{host}:{arguments.port}]")
        server.join()


def start(host: str, port: int) -> Any:
    """Starts a tf.data service in this process. Returns the worker."""
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=port))
    worker = service.WorkerServer(
        service.WorkerConfig(
            dispatcher_address=f"localhost:{port}",
            worker_address=f"{host}:{port + 1}",
            port=port + 1,
        )
    )
    worker.dispatcher = dispatcher  # This reference prevents garbage collection.
    return worker

"""`keras-bert embed`, `search`, `fill-mask`, `generate` and `look`."""

import dataclasses
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import (
    FILE,
    MODEL,
    OUTPUT_FILE,
    PATH,
    add_dtype,
    add_table_form,
    check_not_read,
    positive_int,
    print_json,
    print_line,
    say,
)
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.tasks.base.options import LONG_TEXTS
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.progress import Progress


class Embed(Command):
    words = ("model", "paths")
    example = (
        "  keras-bert embed --model DIR folder --out vectors.npy\n"
        "  keras-bert embed --model DIR rows.csv --text body --id key --out rows.parquet"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument_group("texts and output").add_argument
        add(
            "paths",
            nargs="+",
            type=PATH,
            metavar="PATH",
            help=".txt, .csv, .tsv, .jsonl, .json or .parquet file, or a folder of such files",
        )
        add(
            "--out",
            required=True,
            type=OUTPUT_FILE,
            metavar="FILE",
            help=".npy file for the vectors, with a .jsonl file next to it for the path, line and "
            "beginning of each text; or a .parquet file for both",
        )
        add("--text", default="text", metavar="COLUMN", help="text column of tables")
        add("--id", metavar="COLUMN", help="id column of tables, which search shows")
        add(
            "--per",
            choices=["line", "file"],
            default="line",
            help="compute a vector for each line of a .txt file, or for each file",
        )
        add_table_form(parser.add_argument_group("form of tables"))
        group = parser.add_argument_group("model")
        add = group.add_argument
        add(
            "--model",
            required=True,
            type=MODEL,
            metavar="MODEL",
            help="run or model directory, or name",
        )
        add(
            "--long-texts",
            choices=LONG_TEXTS,
            metavar="NAME",
            help="how to embed texts longer than the sequence length: their beginning "
            "(truncate), the beginning and the end (head_tail), or windows pooled by mean, max "
            "or attention; default: the model's setting, or truncate",
        )
        add(
            "--max-windows",
            type=positive_int,
            metavar="N",
            help="maximum number of windows per text; default: 8",
        )
        add(
            "--batch-size",
            type=positive_int,
            default=32,
            metavar="N",
            help="batch size",
        )
        add(
            "--cache-mb",
            type=positive_int,
            metavar="N",
            help="maximum memory of cached vectors, in MiB, so that repeated texts are embedded "
            "once; default: no cache",
        )
        add_dtype(group)

    def check_files(self, arguments: Namespace) -> None:
        if not arguments.out.endswith((".npy", ".parquet")):
            raise InputError(f"{arguments.out}: the name must end in .npy or .parquet.")
        if arguments.out.endswith(".npy"):
            try:
                check_not_read(Path(arguments.out).with_suffix(".jsonl"), arguments.paths)
            except InputError as error:
                raise InputError(f"--out also writes a .jsonl file: {error}") from error

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.runs.run import load_embedder
        from keras_bert_impl.tasks.embedding.vectors import read_texts, write_vectors

        texts = read_texts(
            arguments.paths,
            arguments.text,
            arguments.per,
            arguments.delimiter,
            not arguments.no_header,
            arguments.id,
        )
        long_texts = {"way": arguments.long_texts, "max_windows": arguments.max_windows}
        embedder = load_embedder(arguments.model, arguments.dtype, long_texts=long_texts)
        with Progress("embedding", unit="texts") as progress:
            count = write_vectors(
                embedder,
                texts,
                arguments.out,
                arguments.batch_size,
                progress.update,
                cache_bytes=(arguments.cache_mb or 0) << 20,
                name=arguments.model,
            )
        say(f"wrote {count:,} vectors of {embedder.dim} numbers to {arguments.out}")


class Search(Command):
    words = ("model", "vectors", "query")
    example = '  keras-bert search --model DIR --vectors vectors.npy "repair a bicycle" --top 5'

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("query", nargs="+", help="texts to search for")
        parser.add_argument(
            "--model",
            required=True,
            type=MODEL,
            metavar="DIR",
            help="the --model of `keras-bert embed`",
        )
        parser.add_argument(
            "--vectors",
            required=True,
            type=FILE,
            metavar="FILE",
            help="the .npy or .parquet file that `keras-bert embed` wrote",
        )
        parser.add_argument(
            "--top", type=positive_int, default=5, metavar="N", help="number of texts per query"
        )
        parser.add_argument("--json", action="store_true", help="print the texts as JSON")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.runs.run import load_embedder
        from keras_bert_impl.tasks.embedding.search import (
            read_places,
            read_vectors,
            search,
        )
        from keras_bert_impl.tasks.embedding.vector_source import changed_files, check_same_model

        vectors = read_vectors(arguments.vectors)
        embedder = load_embedder(arguments.model)
        check_same_model(arguments.vectors, embedder, arguments.model)
        rows, scores = search(embedder, arguments.query, vectors, arguments.top)
        places = read_places(arguments.vectors, rows.ravel(), len(vectors))
        for path in changed_files(arguments.vectors, [place.path for place in places.values()]):
            say(f"{path} has changed since it was embedded. Run `keras-bert embed` again.")
        answers = [
            {
                "query": query,
                "texts": [
                    {"score": score, **places[row].as_dict()} for row, score in zip(*matches)
                ],
            }
            for query, *matches in zip(arguments.query, rows.tolist(), scores.tolist(), strict=True)
        ]
        if arguments.json:
            print_json(answers)
            return
        for answer in answers:
            if len(answers) > 1:
                print_line(answer["query"], is_data=True)
            for text in answer["texts"]:
                line = " ".join(text["text"].split())
                place = text.get("id", f"{text['path']}:{text['line']}")
                print_line(f"{text['score']:.4f}\t{place}\t{line}", is_data=True)


class FillMask(Command):
    words = ("model", "text")
    example = '  keras-bert fill-mask run/model "Paris is the [MASK] of France."'

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "text",
            nargs="+",
            help="model directory or name, and texts with [MASK]",
        )
        parser.add_argument(
            "--model",
            required=True,
            type=MODEL,
            metavar="MODEL",
            help="the model, if it is not the first argument",
        )
        parser.add_argument(
            "--top-k", type=positive_int, default=5, metavar="N", help="number of words per mask"
        )
        parser.add_argument(
            "--candidate",
            action="append",
            metavar="WORD",
            help="candidate word, instead of the whole vocabulary; may be repeated",
        )
        parser.add_argument("--json", action="store_true", help="print the words as JSON")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.tasks.language_modeling.model import MaskedLM

        texts = arguments.text
        model = MaskedLM.from_pretrained(arguments.model)
        fillings = model.fill(texts, arguments.top_k, arguments.candidate)
        if arguments.json:
            print_json(
                [
                    {
                        "text": text,
                        "masks": [[filling._asdict() for filling in mask] for mask in masks],
                    }
                    for text, masks in zip(texts, fillings, strict=True)
                ]
            )
            return
        for text, masks in zip(texts, fillings, strict=True):
            print_line(text, is_data=True)
            for mask in masks:
                print_line(
                    "  " + ", ".join(f"{filling.token} {filling.score:.1%}" for filling in mask)
                )


class Generate(Command):
    words = ("model", "text")
    example = (
        '  keras-bert generate gpt2 "Paris is"\n'
        '  keras-bert generate run/model "Paris is" --temperature 0.8 --top-p 0.9'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "text",
            nargs="+",
            help="model directory or name, and texts to continue",
        )
        parser.add_argument(
            "--model",
            required=True,
            type=MODEL,
            metavar="MODEL",
            help="the model, if it is not the first argument",
        )
        parser.add_argument(
            "--max-new-tokens",
            type=positive_int,
            default=20,
            metavar="N",
            help="maximum number of new tokens",
        )
        parser.add_argument(
            "--temperature",
            type=float,
            default=0.0,
            metavar="T",
            help="divisor of the logits; 0 takes the most likely token",
        )
        parser.add_argument(
            "--top-k", type=positive_int, metavar="N", help="draw from the N most likely tokens"
        )
        parser.add_argument(
            "--top-p",
            type=float,
            metavar="P",
            help="draw from the most likely tokens with this total probability",
        )
        parser.add_argument(
            "--stop",
            action="append",
            metavar="TOKEN",
            help="token that ends a text, instead of the separator; may be repeated",
        )
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draws")
        parser.add_argument("--json", action="store_true", help="print the results as JSON")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.tasks import CausalLM

        texts = arguments.text
        names = ("max_new_tokens", "temperature", "top_k", "top_p", "stop", "seed")
        settings = {name: getattr(arguments, name) for name in names}
        outputs = CausalLM.from_pretrained(arguments.model).generate(texts, **settings)
        if arguments.json:
            rows = zip(texts, outputs, strict=True)
            print_json([{"prompt": text, **dataclasses.asdict(output)} for text, output in rows])
            return
        for text, output in zip(texts, outputs, strict=True):
            print_line(text + output.text, is_data=True)


class Look(Command):
    example = (
        '  keras-bert look run "a joy from start to end"\n'
        '  keras-bert look bert-base-uncased "Paris is the capital of France." --open\n'
        '  keras-bert look run "Who came?" "Ann came with Bob."'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "model", type=MODEL, metavar="MODEL", help="run, model directory or published name"
        )
        parser.add_argument(
            "text", metavar="TEXT", help="text; for two texts, the first text or the question"
        )
        parser.add_argument(
            "pair",
            nargs="?",
            metavar="PAIR",
            help="second text of a pair, or the context of a question",
        )
        parser.add_argument(
            "--out", type=OUTPUT_FILE, metavar="FILE", default="look.html", help="page to write"
        )
        parser.add_argument("--open", action="store_true", help="open the page in a browser")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.reports.look_page import look

        text = arguments.text if arguments.pair is None else (arguments.text, arguments.pair)
        path = look(_load(arguments.model), text, arguments.out)
        print_line(f"wrote {path}")
        if arguments.open:
            webbrowser.open(path.resolve().as_uri())


def _load(name):
    """Loads a fine-tuned model with its task head.

    Other models are loaded as a `MaskedLM` or, without a masked LM head, as a `TextEmbedder`.
    """
    from keras_bert_impl.checkpoints.interop import open_model, read_encoder_config
    from keras_bert_impl.models.weights import MissingTensorError
    from keras_bert_impl.runs.run import load_tuned
    from keras_bert_impl.tasks import MaskedLM, TextEmbedder
    from keras_bert_impl.tasks.registry import NotFineTunedError, model_class_of

    try:
        model_class_of(name)
    except NotFineTunedError:
        pass
    else:
        return load_tuned(name)
    if read_encoder_config(open_model(name)).causal:
        return TextEmbedder.from_pretrained(name)
    try:
        return MaskedLM.from_pretrained(name)
    except MissingTensorError:  # The model has no masked LM head.
        return TextEmbedder.from_pretrained(name)

"""`keras-bert embed`: computes embeddings of the texts in files and folders."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import add_dtype, add_table_form, positive_int, say
from keras_bert_impl.cli.kinds import MODEL, OUTPUT_FILE, PATH, check_not_read
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.progress import Progress
from keras_bert_impl.tasks.base.options import LONG_TEXTS

EXAMPLE = (
    "  keras-bert embed --model DIR folder --out vectors.npy\n"
    "  keras-bert embed --model DIR rows.csv --text body --out vectors.parquet"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
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
        help=".npy file of the vectors, with a .jsonl file next to it of the path, line and "
        "beginning of each text; or a .parquet file of both",
    )
    add("--text", default="text", metavar="COLUMN", help="text column of tables")
    add(
        "--per",
        choices=["line", "file"],
        default="line",
        help="compute a vector for each line of a .txt file, or for the whole file",
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
        help="part of a text longer than a row that is used: its beginning (truncate), its "
        "beginning and end (head_tail), or windows over all of it, joined by their mean, max or "
        "attention; default: the model's own, or truncate",
    )
    add(
        "--max-windows",
        type=positive_int,
        metavar="N",
        help="largest number of windows of a text; default: 8",
    )
    add(
        "--batch-size",
        type=positive_int,
        default=32,
        metavar="N",
        help="number of texts in a batch",
    )
    add_dtype(group)


def check_files(arguments: Namespace) -> None:
    """Checks the output, before TensorFlow is imported."""
    if not arguments.out.endswith((".npy", ".parquet")):
        raise InputError(f"{arguments.out}: the name must end in .npy or .parquet.")
    if arguments.out.endswith(".npy"):
        try:
            check_not_read(Path(arguments.out).with_suffix(".jsonl"), arguments.paths)
        except InputError as error:
            raise InputError(f"--out also writes a .jsonl file: {error}") from error


def run(arguments: Namespace) -> None:
    """Writes the file and prints what it contains."""
    from keras_bert_impl.tasks.embedding.vectors import read_texts, write_vectors
    from keras_bert_impl.tasks.runs.run import load_embedder

    texts = read_texts(
        arguments.paths,
        arguments.text,
        arguments.per,
        arguments.delimiter,
        not arguments.no_header,
    )
    long_texts = {"way": arguments.long_texts, "max_windows": arguments.max_windows}
    embedder = load_embedder(arguments.model, arguments.dtype, long_texts=long_texts)
    with Progress("embedding", unit="texts") as progress:
        count = write_vectors(embedder, texts, arguments.out, arguments.batch_size, progress.update)
    say(f"wrote {count:,} vectors of {embedder.dim} numbers to {arguments.out}")

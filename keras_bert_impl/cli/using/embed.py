"""`keras-bert embed`: computes embeddings of the texts in files and folders."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_dtype, positive_int, say
from keras_bert_impl.io.progress import Progress
from keras_bert_impl.tasks.base.options import LONG_TEXTS

EXAMPLE = (
    "  keras-bert embed --model DIR folder --out vectors.npy\n"
    "  keras-bert embed --model DIR notes.txt rows.csv --text body --out vectors.parquet"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a .txt, .csv, .tsv, .jsonl, .json or .parquet file, or a folder of such files",
    )
    parser.add_argument("--model", required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="a .npy file of the vectors, with a .jsonl file next to it of the path, line and "
        "beginning of each text; or a .parquet file of both",
    )
    parser.add_argument(
        "--text", default="text", metavar="COLUMN", help="the text column of tables; default: text"
    )
    parser.add_argument(
        "--per",
        choices=["line", "file"],
        default="line",
        help="compute a vector for each line of a .txt file (the default), or for the whole file",
    )
    parser.add_argument(
        "--long-texts",
        choices=LONG_TEXTS,
        help="the part of a text longer than a row that is used: its beginning (truncate), its "
        "beginning and end, or windows over all of it; default: the model's own, or truncate",
    )
    parser.add_argument(
        "--max-windows", type=positive_int, help="largest number of windows of a text; default: 8"
    )
    parser.add_argument(
        "--batch-size",
        type=positive_int,
        default=32,
        help="number of texts in a batch; default: 32",
    )
    add_dtype(parser)


def run(arguments: Namespace) -> None:
    """Writes the file and prints what it contains."""
    from keras_bert_impl.tasks.embedding.vectors import read_texts, write_vectors
    from keras_bert_impl.tasks.runs.run import load_embedder

    texts = read_texts(arguments.paths, arguments.text, arguments.per)
    long_texts = {"way": arguments.long_texts, "max_windows": arguments.max_windows}
    embedder = load_embedder(arguments.model, arguments.dtype, long_texts=long_texts)
    with Progress("embedding", unit="texts") as progress:
        count = write_vectors(embedder, texts, arguments.out, arguments.batch_size, progress.update)
    say(f"wrote {count:,} vectors of {embedder.dim} numbers to {arguments.out}")

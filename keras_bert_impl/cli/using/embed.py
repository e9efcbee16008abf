"""`keras-bert embed`: computes embeddings of the texts in files and folders."""

import sys

from keras_bert_impl.cli.common import Progress, positive_int
from keras_bert_impl.tasks.base.options import LONG_TEXTS

EXAMPLE = (
    "  keras-bert embed --model DIR folder --out vectors.npy\n"
    "  keras-bert embed --model DIR notes.txt rows.csv --text body --out vectors.parquet"
)


def add_arguments(parser):
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
        help="vectors.npy, and beside it vectors.jsonl with path, line and beginning of each text; "
        "or vectors.parquet with all of it",
    )
    parser.add_argument(
        "--text", default="text", metavar="COLUMN", help="the text of tables; default: text"
    )
    parser.add_argument(
        "--per",
        choices=["line", "file"],
        default="line",
        help="what is a text in a .txt file: a line (the default), or the whole file; a row of a "
        "table is always one",
    )
    parser.add_argument(
        "--long-texts",
        choices=LONG_TEXTS,
        help="of texts that are longer than a row: their beginning (truncate), their beginning and "
        "end, or windows over all of them; default: what the model says, or truncate",
    )
    parser.add_argument(
        "--max-windows",
        type=positive_int,
        help="what is behind so many windows of a text is left out; default: 8",
    )
    parser.add_argument("--batch-size", type=positive_int, default=32, help="default: 32")
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")


def run(arguments):
    """Writes the file and prints what it contains."""
    from keras_bert_impl.tasks.embedding.vectors import read_texts, write_vectors
    from keras_bert_impl.tasks.runs.run import load_embedder

    texts = read_texts(arguments.paths, arguments.text, arguments.per)
    long_texts = {"way": arguments.long_texts, "max_windows": arguments.max_windows}
    embedder = load_embedder(arguments.model, arguments.dtype, long_texts=long_texts)
    with Progress("embedding", unit="texts") as progress:
        count = write_vectors(embedder, texts, arguments.out, arguments.batch_size, progress.update)
    print(f"wrote {count:,} vectors of {embedder.dim} numbers to {arguments.out}", file=sys.stderr)

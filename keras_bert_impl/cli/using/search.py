"""`keras-bert search`: finds the texts nearest in meaning to a query."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import positive_int, print_json
from keras_bert_impl.cli.kinds import FILE, MODEL

EXAMPLE = '  keras-bert search --model DIR --vectors vectors.npy "mend a bicycle" --top 5'


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
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
        metavar="FILE.npy",
        help="the file that `keras-bert embed` wrote",
    )
    parser.add_argument(
        "--top", type=positive_int, default=5, metavar="N", help="number of texts per query"
    )
    parser.add_argument("--json", action="store_true", help="print the texts as JSON")


def run(arguments: Namespace) -> None:
    """Prints the cosine, location and beginning of each text, best first."""
    from keras_bert_impl.tasks.embedding.search import (
        check_vectors,
        read_places,
        read_vectors,
        search,
    )
    from keras_bert_impl.tasks.runs.run import load_embedder

    vectors = read_vectors(arguments.vectors)
    embedder = load_embedder(arguments.model)
    rows, scores = search(embedder, arguments.query, vectors, arguments.top)
    places = read_places(arguments.vectors, rows.ravel(), len(vectors))
    check_vectors(embedder, vectors, places)
    answers = [
        {
            "query": query,
            "texts": [{"score": score, **places[row]._asdict()} for row, score in zip(*of_query)],
        }
        for query, *of_query in zip(arguments.query, rows.tolist(), scores.tolist(), strict=True)
    ]
    if arguments.json:
        print_json(answers)
        return
    for answer in answers:
        if len(answers) > 1:
            print(answer["query"])
        for text in answer["texts"]:
            line = " ".join(text["text"].split())
            print(f"{text['score']:.4f}\t{text['path']}:{text['line']}\t{line}")

"""Semantic search: find texts with the same meaning in different words.

The embeddings of a help center's questions are computed once. A query is compared with all of them
by cosine similarity. Embedding models, such as the default, need no training. A plain BERT model
does not produce useful sentence embeddings until you fine-tune it (docs/embeddings.md).

    python examples/semantic_search.py --model sentence-transformers/all-MiniLM-L12-v2
"""

from common import parse_arguments

from keras_bert_impl import TextEmbedder, search

HELP = [
    "How do I change my password?",
    "Where can I download my invoice?",
    "How do I cancel my subscription?",
    "Which file formats can I upload?",
    "How do I invite a colleague to my team?",
    "Why is my screen blank after the update?",
    "Can I get my money back?",
    "How do I switch the app to dark colors?",
]
QUERIES = {
    "I want a refund": 6,
    "stop paying every month": 2,
    "I forgot how to log in": 0,
    "night theme": 7,
    "add another person": 4,
}


def main(argv: list[str] | None = None) -> float:
    arguments = parse_arguments(argv, __doc__)
    embedder = TextEmbedder.from_pretrained(arguments.model)
    vectors = embedder.encode(HELP)  # float32 [texts, dim]; keep them in a file
    rows, scores = search(embedder, list(QUERIES), vectors, k=2)
    for query, numbers, cosines in zip(QUERIES, rows, scores, strict=True):
        print(query)
        for number, cosine in zip(numbers, cosines, strict=True):
            print(f"    {cosine:.2f}  {HELP[number]}")
    right = sum(int(first == wanted) for first, wanted in zip(rows[:, 0], QUERIES.values()))
    print(f"{right} of {len(QUERIES)} queries find the right question first")
    return right / len(QUERIES)


if __name__ == "__main__":
    main()

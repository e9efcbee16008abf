"""Fine-tuning: models that take raw strings, readers of labelled data, runs."""

import importlib

# Loaded on first use: the command line reads settings and tables without TensorFlow.
_HOMES = {
    "ChoiceExamples": "choices",
    "Entity": "entities",
    "Examples": "examples",
    "FeatureTagger": "feature_tagger",
    "FinetuneSettings": "settings",
    "MaskedLM": "masked_lm",
    "MultipleChoice": "multiple_choice",
    "NextSentencePredictor": "next_sentence",
    "QuestionAnswerer": "question_answerer",
    "SimilarityExamples": "similarity",
    "TaggedExamples": "tagging",
    "TaskModel": "task_model",
    "TextClassifier": "text_classifier",
    "TextEmbedder": "text_embedder",
    "TokenClassifier": "token_classifier",
    "finetune": "run",
    "load_embedder": "run",
    "load_tuned": "run",
    "read_choices": "choice_files",
    "read_columns": "columns",
    "read_conllu": "columns",
    "read_glue": "glue",
    "read_paws_x": "multilingual",
    "read_squad": "squad",
    "read_table": "tables",
    "read_texts": "vectors",
    "read_tfds": "tfds_examples",
    "read_vectors": "semantic_search",
    "read_xnli": "multilingual",
    "score_answers": "squad_results",
    "score_choices": "choices",
    "score_tags": "tagging",
    "search": "semantic_search",
    "search_null_threshold": "squad_results",
    "sts_scores": "similarity",
    "write_answer_files": "squad_results",
    "write_choice_predictions": "choices",
    "write_tag_predictions": "tagging",
    "write_vectors": "vectors",
    "zero_shot": "entailment",
}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Fine-tuning: models that take raw strings, readers of labelled data, runs."""

import importlib

# Loaded on first use: the command line reads settings and tables without TensorFlow.
_HOMES = {
    "Examples": "examples",
    "Entity": "entities",
    "FeatureTagger": "feature_tagger",
    "FinetuneSettings": "settings",
    "MaskedLM": "masked_lm",
    "QuestionAnswerer": "question_answerer",
    "TaskModel": "task_model",
    "TaggedExamples": "tagging",
    "TextClassifier": "text_classifier",
    "TokenClassifier": "token_classifier",
    "finetune": "run",
    "load_tuned": "run",
    "read_columns": "columns",
    "read_conllu": "columns",
    "read_glue": "glue",
    "read_paws_x": "multilingual",
    "read_squad": "squad",
    "read_table": "tables",
    "read_tfds": "tfds_examples",
    "read_xnli": "multilingual",
    "score_answers": "squad_results",
    "score_tags": "tagging",
    "search_null_threshold": "squad_results",
    "write_answer_files": "squad_results",
    "write_tag_predictions": "tagging",
}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

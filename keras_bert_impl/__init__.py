"""BERT for Keras 3 and TensorFlow: pre-train, fine-tune, serve."""

from keras_bert_impl.utils.lazy import lazy_names, register_classes
from keras_bert_impl.utils.version import __version__  # noqa: F401

# Public name -> its module, which is imported on first use. `import keras_bert_impl` is therefore
# fast, and the encoder on JAX does not import TensorFlow.
_HOMES = {
    "Adapter": "checkpoints.config",
    "EncoderConfig": "checkpoints.config",
    "Encoder": "models.encoder",
    "Tokenizer": "tokenizers",
    "WordPieceTokenizer": "tokenizers",
    "ByteLevelBPETokenizer": "tokenizers",
    "SentencePieceTokenizer": "tokenizers",
    "MosesBPETokenizer": "tokenizers",
    "learn_wordpiece_vocabulary": "tokenizers",
    "AdamW": "training.optimizers.adamw",
    "LAMB": "training.optimizers.lamb",
    "LinearWarmupDecay": "training.optimizers.schedules",
    "get_strategy": "training.strategy",
    "adapt": "pretraining.adaptation",
    "mask_tokens": "pretraining.masking.token_masks",
    "prepare": "pretraining.corpus.preparation",
    "pretrain": "pretraining.run",
    "Pretrainer": "pretraining.pretrainer",
    "TextClassifier": "tasks.text_classification.model",
    "TextEmbedder": "tasks.embedding.model",
    "TokenClassifier": "tasks.tagging.token_classifier",
    "QuestionAnswerer": "tasks.question_answering.model",
    "FeatureTagger": "tasks.tagging.feature_tagger",
    "MultipleChoice": "tasks.multiple_choice.model",
    "NextSentencePredictor": "tasks.text_classification.next_sentence",
    "LongTexts": "tasks.base.long_texts",
    "MaskedLM": "tasks.language_modeling.model",
    "CausalLM": "tasks.language_modeling.causal",
    "read_choices": "data.choices",
    "read_columns": "data.tags.columns",
    "read_conllu": "data.tags.columns",
    "read_tags": "data.tags.reading.read_tags",
    "read_squad": "data.questions",
    "cross_validate": "finetuning.cross_validation",
    "evaluate": "runs.evaluation",
    "finetune": "finetuning.finetune",
    "finetune_set": "finetuning.finetune",
    "finetune_glue": "finetuning.glue",
    "search": "tasks.embedding.search",
    "attribute": "reports.attribution.methods",
    "attention_map": "reports.plots",
    "learning_curves": "reports.plots",
    "write_report": "reports.run_report",
    "look": "reports.look_page",
    "student_of": "models.conversion.formats",
    "load_tuned": "runs.run",
    "save_tuned": "training.tuning.choice",
    "InputError": "utils.errors",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
register_classes()

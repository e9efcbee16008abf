"""BERT for Keras 3 and TensorFlow: pre-train, fine-tune, serve."""

from keras_bert_impl.lazy import lazy_names, register_classes
from keras_bert_impl.version import __version__  # noqa: F401

# Public name -> its module, which is imported on first use. `import keras_bert_impl` is therefore
# fast, and the encoder on JAX does not import TensorFlow.
_HOMES = {
    "Adapter": "config",
    "EncoderConfig": "config",
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
    "read_choices": "tasks.multiple_choice.data",
    "read_columns": "tasks.tagging.columns",
    "read_conllu": "tasks.tagging.columns",
    "read_tags": "tasks.tagging.reading.read_tags",
    "read_squad": "tasks.question_answering.data",
    "cross_validate": "experiments.cross_validation",
    "evaluate": "runs.evaluation",
    "finetune": "finetuning",
    "finetune_set": "finetuning",
    "finetune_glue": "experiments.glue",
    "search": "tasks.embedding.search",
    "attribute": "attribution.methods",
    "attention_map": "plots",
    "learning_curves": "plots",
    "write_report": "reports.run_report",
    "look": "reports.look_page",
    "student_of": "conversion.formats",
    "load_tuned": "runs.run",
    "save_tuned": "tuning.choice",
    "InputError": "io.errors",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
register_classes()

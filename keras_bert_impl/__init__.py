"""BERT for Keras 3 and TensorFlow: pre-train, fine-tune, serve."""

from keras_bert_impl.lazy import lazy_names

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that `import keras_bert_impl` is quick and a
# JAX user who needs only the encoder does not import TensorFlow.
_HOMES = {
    "Adapter": "adapter",
    "EncoderConfig": "config",
    "Encoder": "models.encoder",
    "Tokenizer": "tokenizers",
    "WordPieceTokenizer": "tokenizers",
    "ByteLevelBPETokenizer": "tokenizers",
    "SentencePieceTokenizer": "tokenizers",
    "MosesBPETokenizer": "tokenizers",
    "learn_wordpiece_vocabulary": "tokenizers",
    "AdamW": "training.optimizer",
    "LAMB": "training.lamb",
    "LinearWarmupDecay": "training.schedules",
    "get_strategy": "training.strategy",
    "adapt": "pretraining.adaptation",
    "mask_tokens": "pretraining.token_masks",
    "prepare": "pretraining.preparation",
    "pretrain": "pretraining.run",
    "Pretrainer": "pretraining.pretrainer",
    "TextClassifier": "tasks.text_classifier",
    "TextEmbedder": "tasks.text_embedder",
    "TokenClassifier": "tasks.token_classifier",
    "QuestionAnswerer": "tasks.question_answerer",
    "FeatureTagger": "tasks.feature_tagger",
    "MultipleChoice": "tasks.multiple_choice",
    "NextSentencePredictor": "tasks.next_sentence",
    "MaskedLM": "tasks.masked_lm",
    "read_choices": "tasks.choice_files",
    "read_columns": "tasks.columns",
    "read_conllu": "tasks.columns",
    "read_squad": "tasks.squad",
    "evaluate": "tasks.evaluation",
    "finetune": "tasks.run",
    "finetune_set": "tasks.run_set",
    "search": "tasks.semantic_search",
    "attention_map": "plots.attention",
    "learning_curves": "plots.curves",
    "student_of": "students",
    "load_tuned": "tasks.run",
    "save_tuned": "tuning.files",
    "InputError": "errors",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)

"""Migration from the TensorFlow classes of transformers 4."""

from migration_table import Library, Row, Table

_MODEL = "TextClassifier.from_pretrained"
_RUN = "keras-bert finetune"

_CLASSES = [
    Row("TFBertModel", ("Encoder",), "also replaces other `TF...Model` classes"),
    Row("TFBertForSequenceClassification", ("TextClassifier",)),
    Row("TFBertForTokenClassification", ("TokenClassifier",)),
    Row("TFBertForQuestionAnswering", ("QuestionAnswerer",)),
    Row("TFBertForMultipleChoice", ("MultipleChoice",)),
    Row("TFBertForMaskedLM", ("MaskedLM",)),
    Row("TFBertForNextSentencePrediction", ("NextSentencePredictor",)),
    Row("TFBertForPreTraining", ("Pretrainer",)),
    Row("BertConfig", ("EncoderConfig",)),
    Row("AutoTokenizer", ("Tokenizer",)),
    Row(
        "pipeline('text-classification')",
        ("TextClassifier.classify",),
        "a model with one output is used for regression",
    ),
    Row("pipeline('ner')", ("TokenClassifier.entities",)),
    Row("pipeline('question-answering')", ("QuestionAnswerer.answer",)),
    Row("pipeline('fill-mask')", ("MaskedLM.fill",)),
    Row("pipeline('text-generation')", ("CausalLM.generate",)),
    Row("pipeline('zero-shot-classification')", ("tasks.zero_shot",)),
    Row("pipeline('feature-extraction')", ("TextEmbedder.encode",)),
]
_ARGUMENTS = [
    Row("num_labels", (f"{_MODEL}(num_classes=)",)),
    Row("id2label, label2id", (f"{_MODEL}(labels=)",), "a list of names in the order of their ids"),
    Row(
        "hidden_dropout_prob, attention_probs_dropout_prob",
        (f"{_MODEL}(dropout=)",),
        "one argument replaces every dropout rate",
    ),
    Row("classifier_dropout", (f"{_MODEL}(head_dropout=)",)),
    Row(
        "revision",
        ("checkpoints.hub.local_directory(revision=)",),
        "or `hf://owner/name@revision` as model name",
    ),
    Row("cache_dir", (), "set `HF_HOME`"),
    Row("ignore_mismatched_sizes", (f"{_MODEL}(num_classes=)",), "adds a new head"),
    Row("output_hidden_states=True", ("Encoder.with_outputs",), '`with_outputs("hidden_states")`'),
    Row("output_attentions=True", ("Encoder.with_outputs",), '`with_outputs("attention_scores")`'),
    Row("keras.mixed_precision policy", (f"{_MODEL}(dtype=)",), "or Keras's global policy"),
    Row(
        "model(ids, attention_mask=mask)",
        ("Encoder",),
        'one dict, `encoder({"token_ids": ids, "padding_mask": mask})`',
    ),
    Row(
        "outputs.last_hidden_state",
        ("Encoder",),
        "returns a dict with `sequence_output` and `pooled_output`",
    ),
    Row(
        "model.resize_token_embeddings",
        (),
        "`add_tokens` of `keras_bert_impl.models.conversion.vocabulary_augmentation` writes a new model",
    ),
    Row("model.predict(...).logits", ("TextClassifier.predict",), "returns probabilities"),
    Row("model.push_to_hub(name)", (), "save the model, then upload the directory"),
]
_TOKENIZER = [
    Row("tokenizer(text, text_pair)", ("Tokenizer.__call__(texts=)",), "pairs are tuples"),
    Row("padding", ("Tokenizer.__call__(length=)",), "default: the longest text"),
    Row("truncation, max_length", ("Tokenizer.__call__(length=)",), "longer texts are truncated"),
    Row("return_tensors", (), "the result is always a dict of TensorFlow tensors"),
    Row("add_special_tokens=False", ("Tokenizer.tokenize",), "a ragged tensor of ids"),
    Row("is_split_into_words=True", ("Tokenizer.__call__(texts=)",), "join the words with spaces"),
    Row("return_offsets_mapping=True", ("Tokenizer.tokenize_with_offsets",)),
    Row("decode, batch_decode", ("Tokenizer.detokenize(ids=)",), "the ids of one text"),
    Row(
        "convert_tokens_to_ids, convert_ids_to_tokens",
        ("Tokenizer.token_to_id", "Tokenizer.id_to_token"),
        "one token",
    ),
    Row("add_tokens", ("Tokenizer.add_tokens",), "returns a new tokenizer"),
    Row(
        "input_ids, token_type_ids, attention_mask",
        ("Tokenizer.__call__",),
        "the keys `token_ids`, `segment_ids`, `padding_mask`",
    ),
]
_TRAINING = [
    Row("model.prepare_tf_dataset", (), "not needed: `fit` accepts texts"),
    Row("create_optimizer(init_lr)", ("TextClassifier.compile(learning_rate=)",)),
    Row(
        "create_optimizer(num_train_steps)",
        ("LinearWarmupDecay(total_steps=)",),
        "default: the steps of each `fit`",
    ),
    Row(
        "create_optimizer(num_warmup_steps)",
        ("LinearWarmupDecay(warmup_steps=)",),
        "default: a tenth of the steps",
    ),
    Row("create_optimizer(weight_decay_rate)", ("AdamW(weight_decay=)",), "default 0.01, not 0"),
    Row("create_optimizer(adam_epsilon)", ("AdamW(epsilon=)",), "default 1e-6, not 1e-8"),
    Row(
        "create_optimizer(include_in_weight_decay)",
        ("AdamW(not_decayed=)",),
        "instead lists the weights that are excluded from weight decay",
    ),
    Row("TFTrainer(train_dataset)", ("finetune(train=)", f"{_RUN} --train")),
    Row("TFTrainer(eval_dataset)", ("finetune(dev=)", f"{_RUN} --dev")),
    Row(
        "per_device_train_batch_size",
        (f"{_RUN} --batch-size",),
        "global batch size; default 32, not 8",
    ),
    Row("learning_rate", (f"{_RUN} --learning-rate",), "default 3e-5, not 5e-5"),
    Row("warmup_ratio", (f"{_RUN} --warmup",), "default 0.1, not 0"),
    Row("weight_decay", (f"{_RUN} --weight-decay",), "default 0.01, not 0"),
    Row("max_grad_norm", (f"{_RUN} --clip-norm",)),
    Row("fp16, bf16", (f"{_RUN} --dtype",), "`mixed_float16`, `mixed_bfloat16`"),
    Row("load_best_model_at_end", (f"{_RUN} --keep-best",)),
    Row("EarlyStoppingCallback(early_stopping_patience)", (f"{_RUN} --patience",)),
    Row("save_steps", (f"{_RUN} --checkpoint-minutes",), "also saves after each epoch"),
    Row("xla", ("TextClassifier.compile(jit_compile=)",)),
    Row("tpu_name", ("get_strategy(name=)", f"{_RUN} --strategy")),
]

LIBRARY = Library(
    "transformers (TensorFlow)",
    "transformers 5 has no TensorFlow classes, but loads models that this package saved. This package "
    "loads models of transformers, including `tf_model.h5` files.",
    [
        Table("Classes and pipelines", "transformers", _CLASSES),
        Table("Arguments of `from_pretrained`", "`TFBertForSequenceClassification`", _ARGUMENTS),
        Table("Tokenizers", "tokenizer", _TOKENIZER),
        Table(
            "`compile`, `fit` and `TFTrainer`",
            "`create_optimizer`, `TFTrainingArguments`",
            _TRAINING,
        ),
    ],
)

_OTHERS = [
    Row("SentenceTransformer.encode", ("TextEmbedder.encode",), "returns a NumPy array"),
    Row("SentenceTransformer(truncate_dim)", ("TextEmbedder.from_pretrained(truncate_dim=)",)),
    Row("CrossEncoder", ("TextClassifier",)),
    Row("LoraConfig, get_peft_model", ("Adapter",), '`from_pretrained(adapter=Adapter("lora"))`'),
    Row("load_trained_model_from_checkpoint, build_transformer_model", ("Encoder",)),
    Row("load_vocabulary", ("Tokenizer.from_pretrained",)),
    Row("BertTokenClassifier", ("TokenClassifier",)),
    Row("BertSpanLabeler", ("QuestionAnswerer",)),
    Row("BertPretrainer", ("Pretrainer",)),
    Row("model.fit_generator, model.predict_generator, model.evaluate_generator", (), "`fit`, `predict` and `evaluate` accept generators"),
    Row("lr", ("TextClassifier.compile(learning_rate=)", f"{_RUN} --learning-rate")),
    Row("validation_split", (f"{_RUN} --dev-split",)),
    Row("gpus", (f"{_RUN} --strategy",), "`mirrored`; all GPUs are used"),
    Row("n_splits, k_folds", (f"{_RUN} --folds",)),
]  # fmt: skip
OTHERS = Library(
    "sentence-transformers, PEFT, keras-bert, bert4keras and Keras 2",
    "`from_pretrained` reads models of sentence-transformers and adapters of PEFT.",
    [Table("Names", "other library", _OTHERS)],
)

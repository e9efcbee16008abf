"""Suggestions for names that users carry over from other libraries.

Every concept has exactly one name in this package. A name in `GUESSES` does not exist; using it
raises an error that shows the correct call. The class decorator `@first_guesses("Name")` handles
attributes (an `AttributeError`, so `hasattr` returns False). The function decorator
`@known_arguments("Name.method")` handles keyword arguments (an `InputError`). Both look up their
suggestions in `GUESSES[name]`.
"""

import functools
import inspect

from keras_bert_impl.io.errors import InputError

_CALL = {
    "padding": "tokenizer(texts, length=128), or tokenizer(texts) to pad to the longest row",
    "truncation": "tokenizer(texts, length=128); longer rows are cut",
    "max_length": "tokenizer(texts, length=128)",
    "sequence_length": "tokenizer(texts, length=128)",
    "pad_to_multiple_of": "tokenizer(texts, multiple_of=8)",
    "return_tensors": "tokenizer(texts), which returns a dict of TensorFlow tensors",
    "add_special_tokens": "tokenizer.tokenize(texts), which returns ids without special tokens",
    "return_offsets_mapping": "ids, starts, ends = tokenizer.tokenize_with_offsets(texts)",
    "text_pair": "tokenizer((questions, contexts))",
    "is_split_into_words": 'tokenizer([" ".join(words)])',
}

# Class, class and method, or command line -> wrong name -> suggested call.
GUESSES = {
    # Options and settings, without leading dashes.
    "keras-bert": {
        "lr": "--learning-rate 5e-5",
        "num-train-epochs": "--epochs 3",
        "num-epochs": "--epochs 3",
        "per-device-train-batch-size": "--batch-size 32",
        "train-batch-size": "--batch-size 32",
        "bs": "--batch-size 32",
        "max-seq-length": "--max-length 128",
        "max-seq-len": "--max-length 128",
        "max-steps": "--total-steps 10000",
        "warmup-ratio": "--warmup 0.1",
        "warmup-proportion": "--warmup 0.1",
        "max-grad-norm": "--clip-norm 1.0",
        "gradient-accumulation-steps": "--accumulation-steps 2",
        "fp16": "--dtype mixed_float16",
        "bf16": "--dtype mixed_bfloat16",
        "load-best-model-at-end": "--keep-best",
        "early-stopping-patience": "--patience 2",
        "model-name-or-path": "--model DIR",
        "model-name": "--model DIR",
        "pretrained": "--model DIR",
        "output-dir": "--out DIR",
        "output": "--out DIR",
        "train-file": "--train FILE",
        "train-data": "--train FILE",
        "validation-file": "--dev FILE",
        "valid": "--dev FILE",
        "val": "--dev FILE",
        "test-file": "--dev FILE",
        "validation-split": "--dev-split 0.1",
        "val-split": "--dev-split 0.1",
        "test-size": "--dev-split 0.1",
        "task-name": "--task NAME",
        "text-column-name": "--text COLUMN",
        "text-column": "--text COLUMN",
        "label-column-name": "--label COLUMN",
        "label-column": "--label COLUMN",
        "sep": "--delimiter CHAR",
        "file": "--input FILE",
        "gpus": "--strategy mirrored",
    },
    "Tokenizer": {
        "encode": "tokenizer.tokenize([text])[0], or tokenizer([text]) for a row of a model",
        "encode_plus": "tokenizer([text], length=128)",
        "batch_encode_plus": "tokenizer(texts, length=128)",
        "decode": "tokenizer.detokenize(ids)",
        "batch_decode": "[tokenizer.detokenize(row) for row in ids]",
        "convert_ids_to_tokens": "[tokenizer.id_to_token(i) for i in ids]",
        "convert_tokens_to_ids": "[tokenizer.token_to_id(token) for token in tokens]",
        "convert_tokens_to_string": "tokenizer.detokenize(ids)",
        "mask_token_id": "tokenizer.mask_id",
        "pad_token_id": "tokenizer.pad_id",
        "unk_token_id": "tokenizer.unk_id",
        "cls_token_id": "tokenizer.cls_id",
        "sep_token_id": "tokenizer.sep_id",
        "bos_token_id": "tokenizer.cls_id",
        "eos_token_id": "tokenizer.sep_id",
        "start_token_id": "tokenizer.cls_id",
        "end_token_id": "tokenizer.sep_id",
        "mask_token": "tokenizer.id_to_token(tokenizer.mask_id)",
        "pad_token": "tokenizer.id_to_token(tokenizer.pad_id)",
        "unk_token": "tokenizer.id_to_token(tokenizer.unk_id)",
        "cls_token": "tokenizer.id_to_token(tokenizer.cls_id)",
        "sep_token": "tokenizer.id_to_token(tokenizer.sep_id)",
        "vocab_size": "tokenizer.vocabulary_size",
        "get_vocabulary": "tokenizer.vocabulary",
        "get_vocab": "{token: i for i, token in enumerate(tokenizer.vocabulary)}",
        "vocab": "tokenizer.vocabulary",
        "add_special_tokens": "tokenizer = tokenizer.add_tokens(tokens)",
        "set_vocabulary": "WordPieceTokenizer(vocabulary)",
        "save_to_preset": "tokenizer.save_pretrained(directory)",
    },
    "Tokenizer.__call__": _CALL,
    "Tokenizer.tokenize": _CALL,
    "Tokenizer.from_pretrained": {
        "do_lower_case": "WordPieceTokenizer(vocabulary, lowercase=True)",
        "use_fast": "Tokenizer.from_pretrained(directory)",
        "add_prefix_space": "ByteLevelBPETokenizer(vocabulary, merges, add_prefix_space=True)",
    },
    "Tokenizer.detokenize": {
        "clean_up_tokenization_spaces": "tokenizer.detokenize(ids)",
    },
    "TaskModel": {
        "presets": "`keras-bert models` in a shell, which lists the published models",
        "save_to_preset": "model.save_pretrained(directory)",
        "push_to_hub": "model.save_pretrained(directory), and upload that",
        "backbone": "model.encoder",
        "preprocessor": "model.tokenizer",
        "generate": "model.predict(texts)",
    },
    "TaskModel.from_pretrained": {
        "num_labels": "from_pretrained(name, num_classes=2)",
        "id2label": 'from_pretrained(name, labels=["bad", "good"])',
        "label2id": 'from_pretrained(name, labels=["bad", "good"])',
        "torch_dtype": 'from_pretrained(name, dtype="mixed_bfloat16")',
        "hidden_dropout_prob": "from_pretrained(name, dropout=0.1)",
        "sequence_length": "from_pretrained(name, max_length=128)",
        "max_seq_length": "from_pretrained(name, max_length=128)",
        "preprocessor": "from_pretrained(name), which loads its tokenizer",
        "ignore_mismatched_sizes": "from_pretrained(name, num_classes=3), which makes a new head",
        "trust_remote_code": "from_pretrained(name); no code of a model is run",
    },
    "A model with long_texts": {
        "head_tokens": 'long_texts=LongTexts("head_tail", head_tokens=128)',
        "doc_stride": 'long_texts=LongTexts("mean", doc_stride=128)',
        "max_windows": 'long_texts=LongTexts("mean", max_windows=8)',
    },
    "TaskModel.compile": {
        "lr": "compile(learning_rate=5e-5)",
    },
    "MaskedLM": {
        "fill_mask": 'model.fill(["Paris is the [MASK] of France."])',
        "unmask": 'model.fill(["Paris is the [MASK] of France."])',
        "perplexity": "model.pseudo_perplexity(texts)",
    },
    "prepare": {
        "max_length": "prepare(inputs, directory, tokenizer, length=128)",
        "max_seq_length": "prepare(inputs, directory, tokenizer, length=128)",
        "max_seq_len": "prepare(inputs, directory, tokenizer, length=128)",
        "texts": "prepare(texts, directory, tokenizer)",
        "dupe_factor": "prepare(inputs, directory, tokenizer, passes=10)",
        "short_seq_prob": "prepare(inputs, directory, tokenizer, short_sequence_probability=0.1)",
        "validation_split": "prepare(inputs, directory, tokenizer, held_out=0.05)",
        "masked_lm_prob": "pretrain(records, directory, mask_rate=0.15)",
        "mlm_probability": "pretrain(records, directory, mask_rate=0.15)",
    },
    "pretrain": {
        "epochs": "pretrain(records, directory, total_steps=10_000)",
        "num_train_epochs": "pretrain(records, directory, total_steps=10_000)",
        "num_train_steps": "pretrain(records, directory, total_steps=10_000)",
        "max_steps": "pretrain(records, directory, total_steps=10_000)",
        "steps": "pretrain(records, directory, total_steps=10_000)",
        "lr": "pretrain(records, directory, learning_rate=1e-4)",
        "num_warmup_steps": "pretrain(records, directory, warmup_steps=1000)",
        "per_device_train_batch_size": "pretrain(records, directory, batch_size=256)",
        "train_batch_size": "pretrain(records, directory, batch_size=256)",
        "gradient_accumulation_steps": "pretrain(records, directory, accumulation_steps=4)",
        "save_steps": "pretrain(records, directory, report_every=100)",
        "logging_steps": "pretrain(records, directory, report_every=100)",
        "eval_steps": "pretrain(records, directory, evaluate_every=1000)",
        "mlm_probability": "pretrain(records, directory, mask_rate=0.15)",
        "config": "pretrain(records, directory, model=EncoderConfig(...))",
        "tokenizer": "prepare(inputs, records, tokenizer), then pretrain(records, directory)",
        "output_dir": "pretrain(records, directory)",
    },
    "adapt": {
        "epochs": "adapt(model, texts, directory, adapt_steps=1000)",
        "steps": "adapt(model, texts, directory, adapt_steps=1000)",
        "batch_size": "adapt(model, texts, directory, adapt_batch_size=32)",
        "learning_rate": "adapt(model, texts, directory, adapt_learning_rate=1e-4)",
        "max_length": "adapt(model, texts, directory, adapt_length=128)",
        "texts": "adapt(model, texts, directory)",
    },
    "mask_tokens": {
        "mlm_probability": "mask_tokens(token_ids, tokenizer, mask_rate=0.15)",
        "mask_selection_rate": "mask_tokens(token_ids, tokenizer, mask_rate=0.15)",
        "mask_token_rate": "mask_tokens(token_ids, tokenizer, mask_split=(0.8, 0.1, 0.1))",
        "mask_selection_length": "mask_tokens(token_ids, tokenizer, max_predictions=20)",
        "whole_word_mask": 'mask_tokens(token_ids, tokenizer, mask_unit="word")',
    },
    "QuestionAnswerer.answer": {
        "question": "answer([(question, context)])[0]",
        "questions": "answer(list(zip(questions, contexts)))",
    },
    "Encoder": {
        "presets": "`keras-bert models` in a shell, which lists the published models",
        "encode": "TextEmbedder.from_pretrained(name).encode(texts)",
    },
    "EncoderConfig": {
        "hidden_size": "EncoderConfig(hidden_dim=768)",
        "num_hidden_layers": "EncoderConfig(num_layers=12)",
        "num_attention_heads": "EncoderConfig(num_heads=12)",
        "intermediate_size": "EncoderConfig(intermediate_dim=3072)",
        "vocab_size": "EncoderConfig(vocabulary_size=30522)",
        "max_position_embeddings": "EncoderConfig(max_length=512)",
        "max_sequence_length": "EncoderConfig(max_length=512)",
        "hidden_dropout_prob": "EncoderConfig(dropout=0.1)",
        "attention_probs_dropout_prob": "EncoderConfig(attention_dropout=0.1)",
        "type_vocab_size": "EncoderConfig(num_segments=2)",
        "hidden_act": 'EncoderConfig(activation="gelu")',
    },
    "TextEmbedder": {
        "embed": "embedder.encode(texts)",
        "encode_query": 'embedder.encode(queries, prompt_name="query")',
        "encode_document": 'embedder.encode(texts, prompt_name="document")',
        "encode_multi_process": "embedder.encode(texts)",
        "start_multi_process_pool": "embedder.encode(texts)",
        "similarity_pairwise": "embedder.similarities(pairs), of pairs of texts",
        "get_sentence_embedding_dimension": "embedder.dim",
        "max_seq_length": "embedder.max_length",
        "tokenize": "embedder.tokenizer(texts)",
    },
    "TextEmbedder.encode": {
        "normalize_embeddings": "TextEmbedder.from_pretrained(directory, normalize=True)",
        "truncate_dim": "TextEmbedder.from_pretrained(directory, truncate_dim=256)",
        "convert_to_tensor": "tf.constant(embedder.encode(texts))",
        "convert_to_numpy": "embedder.encode(texts), which returns a NumPy array",
        "show_progress_bar": "embedder.encode(texts, verbose=1)",
        "sentences": "embedder.encode(texts)",
        "device": "with tf.device(device): embedder.encode(texts)",
    },
    "WordPieceTokenizer": {
        "do_lower_case": "WordPieceTokenizer(vocabulary, lowercase=True)",
        "vocab_file": 'WordPieceTokenizer("vocab.txt")',
        "vocab": "WordPieceTokenizer(vocabulary)",
    },
}


class _Guess:
    """Missing class attribute whose error names the correct one."""

    def __init__(self, owner, name, line):
        self._message = f"{owner} has no attribute {name!r}. Write {line}."

    def __get__(self, instance, owner=None):
        raise AttributeError(self._message)


def first_guesses(name):
    """Makes missing attributes in `GUESSES[name]` raise a helpful `AttributeError`.

    A class decorator. Attributes that the class or a subclass defines are unchanged.

    Args:
        name: str. Key of `GUESSES`.
    """

    def decorate(cls):
        for guess, line in GUESSES[name].items():
            if not any(guess in vars(base) for base in cls.__mro__):
                setattr(cls, guess, _Guess(name, guess, line))
        return cls

    return decorate


def known_arguments(name):
    """Makes unknown keyword arguments in `GUESSES[name]` raise a helpful `InputError`.

    A decorator. Any other unknown argument still raises `TypeError`.

    Args:
        name: str. Key of `GUESSES`.
    """
    guesses = GUESSES[name]

    def decorate(function):
        accepted = inspect.signature(function).parameters

        @functools.wraps(function)
        def checked(*args, **kwargs):
            for argument in kwargs:
                if argument in guesses and argument not in accepted:
                    raise InputError(
                        f"{name} has no argument {argument!r}. Write {guesses[argument]}."
                    )
            return function(*args, **kwargs)

        return checked

    return decorate


def known_fields(name):
    """Applies `known_arguments(name)` to the constructor of a dataclass. A class decorator."""

    def decorate(cls):
        cls.__init__ = known_arguments(name)(cls.__init__)
        return cls

    return decorate

"""Errors that suggest the correct call if a user tries a name from another library.

`GUESSES` maps names from other libraries to calls in this library. With the class decorator
`@first_guesses("Name")`, the attributes in `GUESSES["Name"]` raise `AttributeError`, so that
`hasattr` returns False. With the decorator `@known_arguments("Name.method")`, the keyword arguments
in `GUESSES["Name.method"]` raise `InputError`. For imports, see `import_guesses`.
"""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable

from keras_bert_impl.io.errors import InputError

# Class -> suggested call -> wrong names, separated by spaces.
_CALL = {
    "tokenizer(texts, length=128), or tokenizer(texts) to pad to the longest sequence": "padding",
    "tokenizer(texts, length=128); longer sequences are truncated": "truncation",
    "tokenizer(texts, length=128)": "max_length sequence_length",
    "tokenizer(texts, multiple_of=8)": "pad_to_multiple_of",
    "tokenizer(texts), which returns a dict of TensorFlow tensors": "return_tensors",
    "tokenizer.tokenize(texts), which returns ids without special tokens": "add_special_tokens",
    "ids, starts, ends = tokenizer.tokenize_with_offsets(texts)": "return_offsets_mapping",
    "tokenizer((questions, contexts))": "text_pair",
    'tokenizer([" ".join(words)])': "is_split_into_words",
}
# Class, method or command line -> suggested call -> wrong names.
_CALLS = {
    "keras-bert COMMAND": {
        "finetune": "train fit fine-tune",
        "finetune --folds 5": "cross-validate cross-validation crossval cv",
        "finetune --dev-split 0.2": "split",
        "finetune --teacher DIR": "distill",
        "evaluate": "test score benchmark",
        "predict": "infer classify inference",
        "calibrate --threshold f1": "threshold",
        "check FILE": "validate validate-data lint stats",
        "export MODEL --format onnx --precision int8": "quantize",
        "convert MODEL": "download pull",
        "models": "list ls",
        "doctor": "info env",
        "--version": "version",
    },
    # Options and settings, without leading dashes. A name may have several lines, for different
    # commands.
    "keras-bert": {
        "--learning-rate 5e-5": "lr",
        "--epochs 3": "num-train-epochs num-epochs",
        "--batch-size 32": "per-device-train-batch-size train-batch-size bs",
        "--max-length 128": "max-seq-length max-seq-len",
        "--total-steps 10000": "max-steps",
        "--warmup 0.1": "warmup-ratio warmup-proportion warmup-steps num-warmup-steps",
        "--clip-norm 1.0": "max-grad-norm",
        "--accumulation-steps 2": "gradient-accumulation-steps",
        "--dtype mixed_float16": "fp16",
        "--dtype mixed_bfloat16": "bf16",
        "--keep-best": "load-best-model-at-end",
        "--patience 2": "early-stopping-patience",
        "--checkpoint-minutes 10": "save-freq save-strategy save-steps",
        "--metric macro_f1": "metric-for-best-model monitor scoring",
        "--encoding cp1252": "charset",
        "--model DIR": "model-name-or-path model-name pretrained",
        "--out DIR": "output-dir output",
        "--train FILE": "train-file train-data",
        "--dev FILE": "validation-file valid val test-file",
        "--dev-split 0.1": "validation-split val-split test-size",
        "--task NAME": "task-name",
        "--text COLUMN": "text-column-name text-column",
        "--label COLUMN": "label-column-name label-column",
        "--delimiter CHAR": "sep",
        "--input FILE": "file",
        "--format onnx": "onnx",
        "--format litert": "litert tflite",
        "--format openvino": "openvino",
        "--strategy mirrored": "gpus",
        "--seed 1": "random-state random-seed",
        "--report-every 100": "logging-steps save-steps",
        "--evaluate-every 1000": "eval-steps",
    },
    "Tokenizer": {
        "tokenizer.tokenize([text])[0], or tokenizer([text]) for a model input": "encode",
        "tokenizer([text], length=128)": "encode_plus",
        "tokenizer.detokenize(ids)": "decode convert_tokens_to_string",
        "tokenizer(texts, length=128)": "batch_encode_plus model_max_length padding_side",
        "[tokenizer.detokenize(row) for row in ids]": "batch_decode",
        "[tokenizer.id_to_token(i) for i in ids]": "convert_ids_to_tokens",
        "[tokenizer.token_to_id(token) for token in tokens]": "convert_tokens_to_ids",
        "tokenizer.mask_id": "mask_token_id",
        "tokenizer.pad_id": "pad_token_id",
        "tokenizer.unk_id": "unk_token_id",
        "tokenizer.cls_id": "cls_token_id bos_token_id start_token_id",
        "tokenizer.sep_id": "sep_token_id eos_token_id end_token_id",
        "tokenizer.id_to_token(tokenizer.mask_id)": "mask_token",
        "tokenizer.id_to_token(tokenizer.pad_id)": "pad_token",
        "tokenizer.id_to_token(tokenizer.unk_id)": "unk_token",
        "tokenizer.id_to_token(tokenizer.cls_id)": "cls_token",
        "tokenizer.id_to_token(tokenizer.sep_id)": "sep_token",
        "tokenizer.vocabulary_size": "vocab_size",
        "tokenizer.vocabulary": "get_vocabulary vocab",
        "{token: i for i, token in enumerate(tokenizer.vocabulary)}": "get_vocab",
        "tokenizer = tokenizer.add_tokens(tokens)": "add_special_tokens",
        "WordPieceTokenizer(vocabulary)": "set_vocabulary",
        "tokenizer.save_pretrained(directory)": "save_to_preset",
        "Tokenizer.from_pretrained(name)": "from_preset",
    },
    "Optimizer": {"optimizer.learning_rate": "lr _decayed_lr"},
    "Tokenizer.__call__": _CALL,
    "Tokenizer.tokenize": _CALL,
    "Tokenizer.from_pretrained": {
        "WordPieceTokenizer(vocabulary, lowercase=True)": "do_lower_case",
        "Tokenizer.from_pretrained(directory)": "use_fast",
        "ByteLevelBPETokenizer(vocabulary, merges, add_prefix_space=True)": "add_prefix_space",
    },
    "Tokenizer.detokenize": {
        "tokenizer.detokenize(ids)": "clean_up_tokenization_spaces",
    },
    "TaskModel": {
        "`keras-bert models` in a shell, which lists the published models": "presets",
        "from_pretrained(name), which also reads presets": "from_preset",
        "model.save_pretrained(directory)": "save_to_preset",
        "model.save_pretrained(directory), and upload that": "push_to_hub",
        'from_pretrained(name, adapter=Adapter("lora", size=4))': "enable_lora",
        "model.encoder": "backbone",
        "model.tokenizer": "preprocessor",
        "model.predict(texts)": "generate predict_proba predict_classes predict_generator",
        "model.fit(batches, steps_per_epoch=100)": "fit_generator train",
        "model.evaluate(batches, steps=100)": "evaluate_generator",
        "from_pretrained(name, max_length=128), and read model.max_length": "max_seq_length",
        "model.labels": "id2label label2id classes_",
        "model.num_classes": "num_labels",
        'from_pretrained(name, dtype="mixed_bfloat16")': "half",
        "strategy = get_strategy(), and create the model in strategy.scope()": "to cuda",
    },
    "TaskModel.from_pretrained": {
        "from_pretrained(name, num_classes=2)": "num_labels",
        'from_pretrained(name, labels=["bad", "good"])': "id2label label2id",
        'from_pretrained(name, dtype="mixed_bfloat16")': "torch_dtype",
        "from_pretrained(name, dropout=0.1)": "hidden_dropout_prob",
        "from_pretrained(name, max_length=128)": "sequence_length max_seq_length",
        "from_pretrained(name), which loads its tokenizer": "preprocessor",
        "from_pretrained(name, num_classes=3), which creates a new head": "ignore_mismatched_sizes",
        "from_pretrained(name), which never runs code of a model": "trust_remote_code",
        "from_pretrained(name), which detects the file format": "from_tf from_pt from_flax",
        'from_pretrained(name, long_texts=LongTexts("head_tail", head_tokens=128))': "head_tokens",
        'from_pretrained(name, long_texts=LongTexts("mean", max_windows=8))': "max_windows",
        'from_pretrained(name, long_texts=LongTexts("mean", doc_stride=128))': "doc_stride",
    },
    "TaskModel.compile": {
        "compile(learning_rate=5e-5)": "lr",
    },
    "MaskedLM": {
        'model.fill(["Paris is the [MASK] of France."])': "fill_mask unmask",
        "model.pseudo_perplexity(texts)": "perplexity",
    },
    "CausalLM": {
        'model.generate(["Paris is"], max_new_tokens=20)': "complete continue_text",
    },
    "CausalLM.generate": {
        "generate(texts, max_new_tokens=20)": "max_length max_tokens",
        "generate(texts, temperature=1.0)": "do_sample",
        "generate([text] * 3, temperature=1.0)": "num_return_sequences n",
        "generate(texts); beam search is not supported": "num_beams",
        'generate(texts, stop=["."])': "eos_token_id stop_strings stop_token_ids",
        "generate(text).text, which is only the new text": "return_full_text strip_prompt",
    },
    "prepare": {
        "prepare(inputs, directory, tokenizer, length=128)": (
            "max_length max_seq_length max_seq_len"
        ),
        "prepare(texts, directory, tokenizer)": "texts",
        "prepare(inputs, directory, tokenizer, passes=10)": "dupe_factor",
        "prepare(inputs, directory, tokenizer, short_sequence_probability=0.1)": "short_seq_prob",
        "prepare(inputs, directory, tokenizer, held_out=0.05)": "validation_split",
        "pretrain(records, directory, mask_rate=0.15)": "masked_lm_prob mlm_probability",
    },
    "pretrain": {
        "pretrain(records, directory, total_steps=10_000)": (
            "epochs num_train_epochs num_train_steps max_steps steps"
        ),
        "pretrain(records, directory, learning_rate=1e-4)": "lr",
        "pretrain(records, directory, warmup_steps=1000)": "num_warmup_steps",
        "pretrain(records, directory, batch_size=256)": (
            "per_device_train_batch_size train_batch_size"
        ),
        "pretrain(records, directory, accumulation_steps=4)": "gradient_accumulation_steps",
        "pretrain(records, directory, report_every=100)": "save_steps logging_steps",
        "pretrain(records, directory, evaluate_every=1000)": "eval_steps",
        "pretrain(records, directory, mask_rate=0.15)": "mlm_probability",
        "pretrain(records, directory, model=EncoderConfig(...))": "config",
        "prepare(inputs, records, tokenizer), then pretrain(records, directory)": "tokenizer",
        "pretrain(records, directory)": "output_dir",
    },
    "adapt": {
        "adapt(model, texts, directory, adapt_steps=1000)": "epochs steps",
        "adapt(model, texts, directory, adapt_batch_size=32)": "batch_size",
        "adapt(model, texts, directory, adapt_learning_rate=1e-4)": "learning_rate",
        "adapt(model, texts, directory, adapt_length=128)": "max_length",
        "adapt(model, texts, directory)": "texts",
    },
    "mask_tokens": {
        "mask_tokens(token_ids, tokenizer, mask_rate=0.15)": "mlm_probability mask_selection_rate",
        "mask_tokens(token_ids, tokenizer, mask_split=(0.8, 0.1, 0.1))": "mask_token_rate",
        "mask_tokens(token_ids, tokenizer, max_predictions=20)": "mask_selection_length",
        'mask_tokens(token_ids, tokenizer, mask_unit="word")': "whole_word_mask",
    },
    "QuestionAnswerer.answer": {
        "answer([(question, context)])[0]": "question",
        "answer(list(zip(questions, contexts)))": "questions",
    },
    "Encoder": {
        "Encoder.from_pretrained(name)": "from_preset",
        "`keras-bert models` in a shell, which lists the published models": "presets",
        "TextEmbedder.from_pretrained(name).encode(texts)": "encode",
        'Encoder.from_pretrained(name, adapter=Adapter("lora", size=4))': "enable_lora",
    },
    "EncoderConfig": {
        "EncoderConfig(hidden_dim=768)": "hidden_size",
        "EncoderConfig(num_layers=12)": "num_hidden_layers",
        "EncoderConfig(num_heads=12)": "num_attention_heads",
        "EncoderConfig(intermediate_dim=3072)": "intermediate_size",
        "EncoderConfig(vocabulary_size=30522)": "vocab_size",
        "EncoderConfig(max_length=512)": "max_position_embeddings max_sequence_length",
        "EncoderConfig(dropout=0.1)": "hidden_dropout_prob",
        "EncoderConfig(attention_dropout=0.1)": "attention_probs_dropout_prob",
        "EncoderConfig(num_segments=2)": "type_vocab_size",
        'EncoderConfig(activation="gelu")': "hidden_act",
    },
    "TextEmbedder": {
        "embedder.encode(texts)": "embed encode_multi_process start_multi_process_pool",
        'embedder.encode(queries, prompt_name="query")': "encode_query",
        'embedder.encode(texts, prompt_name="document")': "encode_document",
        "embedder.similarities(pairs), of pairs of texts": "similarity_pairwise",
        "embedder.dim": "get_sentence_embedding_dimension",
        "embedder.tokenizer(texts)": "tokenize",
    },
    "TextEmbedder.encode": {
        "TextEmbedder.from_pretrained(directory, normalize=True)": "normalize_embeddings",
        "TextEmbedder.from_pretrained(directory, truncate_dim=256)": "truncate_dim",
        "tf.constant(embedder.encode(texts))": "convert_to_tensor",
        "embedder.encode(texts), which returns a NumPy array": "convert_to_numpy",
        "embedder.encode(texts, verbose=1)": "show_progress_bar",
        "embedder.encode(texts)": "sentences",
        "with tf.device(device): embedder.encode(texts)": "device",
    },
    "WordPieceTokenizer": {
        "WordPieceTokenizer(vocabulary, lowercase=True)": "do_lower_case",
        'WordPieceTokenizer("vocab.txt")': "vocab_file",
        "WordPieceTokenizer(vocabulary)": "vocab",
    },
}
# Suggestion -> options of other programs.
_ANSWERS = {
    "train on all folds with scikit-learn's cross_val_score(BertClassifier(...), texts, labels)": (
        "folds num-folds n-folds k-fold kfold cv cross-validation"
    ),
    "run `keras-bert calibrate --model run --threshold f1`; predict and serve then use this "
    "threshold": ("threshold thresholds decision-threshold temperature-scaling calibrate"),
    "all GPUs are used; to use only some of them, set CUDA_VISIBLE_DEVICES": (
        "gpu device devices cuda no-cuda"
    ),
    "remove HTML from the file first; `keras-bert check FILE` counts the texts with HTML": (
        "clean-html strip-html clean html"
    ),
}
_ANSWER_OF = {name: answer for answer, names in _ANSWERS.items() for name in names.split()}
_MOST_NEAR, _FEW = 3, 8  # maximum number of similar names; number up to which all are listed
# Class, method or command line -> wrong name -> suggested call.
GUESSES = {
    owner: {name: call for call, names in calls.items() for name in names.split()}
    for owner, calls in _CALLS.items()
}


class _Guess:
    """Descriptor of an unknown attribute. Access raises `AttributeError` with the correct call."""

    def __init__(self, owner: str, name: str, line: str) -> None:
        self._name = name
        self._message = f"{owner} has no attribute {name!r}. Write {line}."

    def __get__(self, instance: object, owner: type | None = None) -> object:
        if instance is not None and self._name in vars(instance):
            return vars(instance)[self._name]
        raise AttributeError(self._message)

    def __set__(self, instance: object, value: object) -> None:
        if type(instance).__module__.startswith("keras_bert_impl."):
            raise AttributeError(self._message)
        vars(instance)[self._name] = value

    def __delete__(self, instance: object) -> None:
        vars(instance).pop(self._name, None)


def first_guesses(name: str) -> Callable[[type], type]:
    """Class decorator: access to an attribute in `GUESSES[name]` raises `AttributeError`."""

    def decorate(cls):
        for guess, line in GUESSES[name].items():
            if not any(guess in vars(base) for base in cls.__mro__):
                setattr(cls, guess, _Guess(name, guess, line))
        return cls

    return decorate


def known_arguments(name: str) -> Callable[[Callable], Callable]:
    """Decorator: an unknown keyword argument raises `InputError` with the correct call."""

    def decorate(function):
        known, takes_any = _parameters(function)

        @functools.wraps(function)
        def checked(*args, **kwargs):
            _check_known(name, GUESSES.get(name, {}), kwargs, known, takes_any)
            return function(*args, **kwargs)

        return checked

    return decorate


def check_constructor(cls: type, given: Iterable[str]) -> None:
    """Raises `InputError` for the first unknown argument of a task model's constructor."""
    guesses = GUESSES["TaskModel.from_pretrained"]
    _check_known(cls.__name__, guesses, given, *_parameters(vars(cls).get("__init__", cls)))


class KnownArguments:
    """Mixin: constructors of subclasses raise `InputError` for unknown arguments.

    Subclasses in other packages are not changed.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        init = vars(cls).get("__init__")
        if init is None or not cls.__module__.startswith("keras_bert_impl."):
            return

        @functools.wraps(init)
        def checked(self, *args, **kwargs):
            check_constructor(cls, kwargs)
            init(self, *args, **kwargs)

        # With the signature (self, *args, **kwargs), `clone_model` would detect a functional model.
        checked.__signature__ = inspect.signature(init)  # type: ignore[attr-defined]

        cls.__init__ = checked  # type: ignore[method-assign]  # the class is being created


def nearest(name: object, known: Iterable[str]) -> str:
    """Returns a suggestion for an unknown setting or option, such as `did you mean 'epochs'?`."""
    known = list(map(str, known))
    plain = str(name).removeprefix("--").replace("_", "-")
    for line, names in _CALLS["keras-bert"].items():
        option, _, value = line.partition(" ")
        setting = option.removeprefix("--").replace("-", "_")
        if plain in names.split() and option in known:
            return f"write {line}"
        if plain in names.split() and setting in known:
            return f"write {setting}={value or 'True'}."
    if plain in _ANSWER_OF:
        return f"{_ANSWER_OF[plain]}."
    near = difflib.get_close_matches(str(name), known, _MOST_NEAR, 0)
    if near and difflib.SequenceMatcher(None, near[0], str(name)).ratio() >= 0.7:
        return f"did you mean {near[0] if near[0].startswith('-') else repr(near[0])}?"
    if len(known) <= _FEW:
        return f"available: {', '.join(known)}"
    return f"similar: {', '.join(near)}"


def _parameters(function):
    """Returns (parameter names of a function, whether it accepts `**kwargs`)."""
    parameters = list(inspect.signature(function).parameters.values())
    names = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    return [name for name in names if name != "self"], len(names) < len(parameters)


def _check_known(owner, guesses, given, known, takes_any):
    for argument in given:
        if argument in known or (takes_any and argument not in guesses):
            continue
        if argument in guesses:
            raise InputError(f"{owner} has no argument {argument!r}. Write {guesses[argument]}.")
        raise InputError(f"{owner} has no argument {argument!r}; {nearest(argument, known)}")


def known_fields(name: str) -> Callable[[type], type]:
    """Class decorator that applies `known_arguments(name)` to the constructor of a dataclass."""

    def decorate(cls):
        cls.__init__ = known_arguments(name)(cls.__init__)
        return cls

    return decorate

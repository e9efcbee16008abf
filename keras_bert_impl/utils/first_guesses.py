"""Errors that suggest the correct call if a user tries a name from another library.

docs/migration.md has the complete tables. Here are the names that users type most often; a name
that is almost the same as ours is found by its similarity.
"""

import ast
import difflib
import functools
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError

# Suggested import -> pattern of names in other libraries. The first match is used.
_IMPORTS = {
    "Tokenizer.from_pretrained(name)": r".*Tokenizer(Fast)?",
    "TextClassifier.from_pretrained(name, num_classes=2)": (
        r".*ForSequenceClassification|.*TextClassifier|CrossEncoder|BertClassifier|pipeline"
    ),
    'TokenClassifier.from_pretrained(name, labels=["O", "B-X", "I-X"])': ".*ForTokenClassification",
    "QuestionAnswerer.from_pretrained(name)": ".*ForQuestionAnswering",
    "MultipleChoice.from_pretrained(name)": ".*ForMultipleChoice",
    "CausalLM.from_pretrained(name)": r".*(ForCausalLM|GPT2LMHeadModel|\wCausalLM)",
    "MaskedLM.from_pretrained(name)": r".*(ForMaskedLM|LMHeadModel|\wMaskedLM)",
    "NextSentencePredictor.from_pretrained(name)": ".*ForNextSentencePrediction",
    'Pretrainer.from_pretrained(name, objectives=["masked_lm"])': ".*ForPreTraining",
    "TextEmbedder.from_pretrained(name).encode(texts)": "SentenceTransformer.*",
    'EncoderConfig.named("bert-base-uncased")': ".*Config",
    "Encoder.from_pretrained(name)": r"[A-Z]\w*(Model|Backbone|Layer)|BertEncoder",
    "model.fit(texts, labels)  # the inputs are strings": (
        r".*(Trainer|TrainingArguments|Preprocessor|DataCollator\w*)|Input\w+"
    ),
    "AdamW(LinearWarmupDecay(3e-5, 100, 1000))": r"create_optimizer|get_\w*schedule\w*",
}
# Setting, with a value -> names in other libraries. An option is written `--learning-rate 5e-5`.
_SETTINGS = {
    "learning_rate=5e-5": "lr",
    "epochs=3": "num_train_epochs",
    "batch_size=32": "per_device_train_batch_size",
    "max_length=128": "sequence_length max_position_embeddings",
    "length=128": "max_length sequence_length max_seq_length",
    "max_new_tokens=20": "max_length max_tokens",
    "total_steps=10000": "max_steps",
    "warmup=0.1": "warmup_ratio warmup_steps",
    "clip_norm=1.0": "max_grad_norm",
    'dtype="mixed_float16"': "fp16",
    'dtype="mixed_bfloat16"': "bf16 torch_dtype",
    "keep_best=True": "load_best_model_at_end",
    "patience=2": "early_stopping_patience",
    "checkpoint_minutes=10": "save_freq save_steps",
    "report_every=100": "logging_steps save_steps",
    "evaluate_every=1000": "eval_steps",
    'metric="macro_f1"': "metric_for_best_model",
    "seed=1": "random_state",
    'model="DIR"': "model_name_or_path pretrained",
    'out="DIR"': "output_dir output",
    'train="FILE"': "train_file",
    'dev="FILE"': "validation_file test_file",
    "dev_split=0.1": "validation_split test_size",
    'text="COLUMN"': "text_column_name",
    'label="COLUMN"': "label_column_name",
    'delimiter="CHAR"': "sep",
    'format="onnx"': "onnx",
    "num_classes=2": "num_labels",
    'labels=["bad", "good"]': "id2label label2id",
    "dropout=0.1": "hidden_dropout_prob",
    "num_heads=12": "num_attention_heads",
    "num_segments=2": "type_vocab_size",
    'activation="gelu"': "hidden_act",
    "lowercase=True": "do_lower_case",
    "mask_rate=0.15": "mlm_probability masked_lm_prob",
    "k=5": "top_k",
}
# Answer -> options of other programs.
_ANSWERS = {
    "train on all folds with scikit-learn's cross_val_score(BertClassifier(...), texts, labels)": (
        "folds k_fold cv"
    ),
    "run `keras-bert calibrate --model run --threshold f1`; predict and serve then use this "
    "threshold": "threshold",
    "all GPUs are used; to use only some of them, set CUDA_VISIBLE_DEVICES": "gpu device no_cuda",
}
_TEXTS = {
    "tokenizer(texts, length=128)  # pads and truncates": "padding truncation",
    "tokenizer(texts)  # returns a dict of TensorFlow tensors": "return_tensors",
    "tokenizer.tokenize(texts)  # ids without special tokens": "add_special_tokens",
    "ids, starts, ends = tokenizer.tokenize_with_offsets(texts)": "return_offsets_mapping",
    "tokenizer((questions, contexts))": "text_pair",
}
# Class, method or command line -> suggested call -> names of attributes, arguments or commands.
_CALLS = {
    "keras-bert COMMAND": {
        "finetune": "train fit",
        "finetune --folds 5": "cross-validate cv",
        "finetune --dev-split 0.2": "split",
        "finetune --teacher DIR": "distill",
        "evaluate": "test score",
        "predict": "infer classify",
        "calibrate --threshold f1": "threshold",
        "check FILE": "validate lint stats",
        "export MODEL --format onnx --precision int8": "quantize",
        "convert MODEL": "download",
        "models": "list",
        "doctor": "info",
        "--version": "version",
    },
    "Tokenizer": {
        "tokenizer.tokenize([text])[0]": "encode",
        "tokenizer(texts, length=128)": "encode_plus batch_encode_plus model_max_length",
        "tokenizer.detokenize(ids)": "decode batch_decode",
        "[tokenizer.id_to_token(i) for i in ids]": "convert_ids_to_tokens",
        "[tokenizer.token_to_id(token) for token in tokens]": "convert_tokens_to_ids",
        "tokenizer.mask_id": "mask_token_id",
        "tokenizer.pad_id": "pad_token_id",
        "tokenizer.cls_id": "cls_token_id",
        "tokenizer.sep_id": "sep_token_id eos_token_id",
        "tokenizer.id_to_token(tokenizer.mask_id)": "mask_token",
        "tokenizer.vocabulary_size": "vocab_size",
        "tokenizer.vocabulary": "get_vocabulary get_vocab vocab",
        "Tokenizer.from_pretrained(name)": "from_preset",
    },
    "Tokenizer.__call__": _TEXTS,
    "Tokenizer.tokenize": _TEXTS,
    "Encoder": {"Encoder.from_pretrained(name)": "from_preset presets"},
    "Optimizer": {"optimizer.learning_rate": "lr"},
    "TaskModel": {
        "`keras-bert models`  # lists the published models": "presets",
        "from_pretrained(name)  # also reads presets": "from_preset",
        "model.save_pretrained(directory)": "save_to_preset push_to_hub",
        'from_pretrained(name, adapter=Adapter("lora", size=4))': "enable_lora",
        "model.encoder": "backbone bert roberta distilbert base_model",
        "model.tokenizer": "preprocessor",
        "model.predict(texts)": "generate predict_proba",
        "model.fit(batches, steps_per_epoch=100)": "fit_generator train",
        "model.max_length": "max_seq_length",
        "model.labels": "id2label label2id classes_",
        "model.num_classes": "num_labels",
        "strategy = get_strategy()  # create the model in strategy.scope()": "to cuda",
        "keras_bert_impl.models.conversion.vocabulary_augmentation.add_tokens(name, directory, tokens)": (
            "resize_token_embeddings"
        ),
    },
    "TaskModel.from_pretrained": {
        "from_pretrained(name)  # loads its tokenizer and detects the file format": (
            "preprocessor trust_remote_code from_tf from_pt"
        ),
        "from_pretrained(name, num_classes=3)  # creates a new head": "ignore_mismatched_sizes",
        "TextClassifier(Encoder.from_pretrained(name), tokenizer, num_classes=2)": (
            "tokenizer encoder"
        ),
        'from_pretrained(name).encoder.with_outputs("hidden_states")': "output_hidden_states",
        'from_pretrained(name).encoder.with_outputs("attention_scores")': "output_attentions",
        'from_pretrained(name, long_texts=LongTexts("mean", doc_stride=8))': "doc_stride",
        'from_pretrained(name, long_texts=LongTexts("mean", max_windows=8))': "max_windows",
        'from_pretrained(name, long_texts=LongTexts("head_tail", head_tokens=128))': "head_tokens",
    },
    "TaskModel.compile": {"model.compile(learning_rate=5e-5)": "lr"},
    "EncoderConfig": {
        'encoder.with_outputs("hidden_states")': "output_hidden_states",
        'encoder.with_outputs("attention_scores")': "output_attentions",
    },
    "MaskedLM": {'model.fill(["Paris is the [MASK] of France."])': "fill_mask unmask"},
    "CausalLM.generate": {
        "model.generate(texts, temperature=1.0)": "do_sample",
        "model.generate([text] * 3, temperature=1.0)": "num_return_sequences",
        "model.generate(texts)  # without beam search": "num_beams",
        'model.generate(texts, stop=["."])': "eos_token_id stop_strings",
    },
    "QuestionAnswerer.answer": {"model.answer([(question, context)])[0]": "question questions"},
    "TextEmbedder": {
        "embedder.encode(texts)": "embed encode_multi_process start_multi_process_pool",
        'embedder.encode(queries, prompt_name="query")': "encode_query",
        'embedder.encode(texts, prompt_name="document")': "encode_document",
        "embedder.similarities(pairs)": "similarity_pairwise",
        "embedder.dim": "get_sentence_embedding_dimension",
        "embedder.tokenizer(texts)": "tokenize",
    },
    "TextEmbedder.encode": {
        "TextEmbedder.from_pretrained(directory, normalize=True)": "normalize_embeddings",
        "tf.constant(embedder.encode(texts))": "convert_to_tensor",
        "embedder.encode(texts)  # returns a NumPy array": "convert_to_numpy sentences",
        "embedder.encode(texts, verbose=1)": "show_progress_bar",
        'with tf.device("CPU"): embedder.encode(texts)': "device",
    },
}
_MOST_NEAR, _FEW = 3, 8  # maximum number of similar names; number up to which all are listed


def _index_by_name(calls):
    return {name: call for call, names in calls.items() for name in names.split()}


# Class, method or command line -> name -> suggested call.
GUESSES = {owner: _index_by_name(calls) for owner, calls in _CALLS.items()}


class _Guess:
    """Descriptor of an unknown attribute. Access raises `AttributeError` with the correct call."""

    def __init__(self, owner: str, name: str, call: str) -> None:
        self._name = name
        self._message = f"{owner} has no attribute {name!r}. Write {call}."

    def __get__(self, instance: object, owner: type | None = None) -> object:
        if instance is not None and self._name in vars(instance):
            return vars(instance)[self._name]
        raise AttributeError(self._message)

    def __set__(self, instance: object, value: object) -> None:
        if type(instance).__module__.startswith("keras_bert_impl."):
            raise AttributeError(self._message)
        vars(instance)[self._name] = value


def first_guesses(name: str) -> Callable[[type], type]:
    """Class decorator: access to an attribute in `GUESSES[name]` raises `AttributeError`."""

    def wrap_class(cls):
        for guess, call in GUESSES[name].items():
            if not hasattr(cls, guess):
                setattr(cls, guess, _Guess(name, guess, call))
        return cls

    return wrap_class


def known_arguments(name: str, table: str | None = None) -> Callable[[Any], Any]:
    """Decorator: wrong keyword arguments raise `InputError` with the correct call.

    It decorates a function, or the constructor of a dataclass.

    Args:
        name: the name of the function in messages.
        table: key of `GUESSES`. Default: `name`.
    """

    def wrap(function):
        if inspect.isclass(function):
            function.__init__ = wrap(function.__init__)
            return function
        by_position = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def check_and_call(*args, **kwargs):
            _check_arguments(name, table or name, function, kwargs)
            for twice in kwargs.keys() & set(by_position[: len(args)]):
                raise InputError(
                    f"{name} received {twice!r} twice, by position and by name. Pass it by name, "
                    "and pairs of texts as one argument, (first_texts, second_texts)."
                )
            return function(*args, **kwargs)

        # With the signature (self, *args, **kwargs), `clone_model` would detect a functional model.
        check_and_call.__signature__ = inspect.signature(function)
        return check_and_call

    return wrap


def check_constructor(cls: type, arguments: Iterable[str]) -> None:
    """Raises `InputError` for an argument of `from_pretrained` that a task model cannot have."""
    name, table = f"{cls.__name__}.from_pretrained", "TaskModel.from_pretrained"
    _check_arguments(
        name, table, vars(cls).get("__init__", cls), arguments, {"encoder", "tokenizer"}
    )


def _check_arguments(name, table, function, arguments, loaded=frozenset()):
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "self"]
    names = [parameter_name for parameter_name in names if parameter_name not in loaded]
    guesses = GUESSES.get(table, {})
    for argument in arguments:
        if argument in names or (takes_any and argument not in guesses):
            continue
        if argument in guesses:
            raise InputError(f"{name} has no argument {argument!r}. Write {guesses[argument]}.")
        raise InputError(f"{name} has no argument {argument!r}; {nearest(argument, names)}")


class KnownArguments:
    """Mixin: constructors of subclasses raise `InputError` for unknown arguments.

    Subclasses in other packages are not changed.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls) and cls.__module__.startswith("keras_bert_impl."):
            known_arguments(cls.__name__, "TaskModel.from_pretrained")(cls)


def nearest(name: object, choices: Iterable[str]) -> str:
    """Returns a suggestion for an unknown setting or option, such as `did you mean 'epochs'?`."""
    choices = list(map(str, choices))
    plain = str(name).removeprefix("--").replace("-", "_")
    for line, names in _SETTINGS.items():
        setting, _, value = line.partition("=")
        option = f"--{setting.replace('_', '-')}"
        if plain in names.split() and option in choices:
            value = re.sub(r"""[]["',]|^True$""", "", value)
            return f"write {option} {value}".rstrip()
        if plain in names.split() and setting in choices:
            return f"write {line}."
    if plain in _index_by_name(_ANSWERS):
        return f"{_index_by_name(_ANSWERS)[plain]}."
    near = difflib.get_close_matches(str(name), choices, _MOST_NEAR, 0)
    if near and difflib.SequenceMatcher(None, near[0], str(name)).ratio() >= 0.7:
        return f"did you mean {near[0] if near[0].startswith('-') else repr(near[0])}?"
    if len(choices) <= _FEW:
        return f"available: {', '.join(choices)}"
    return f"similar: {', '.join(near)}"


def import_hint(package: str, name: str) -> str | None:
    """Returns a suggestion for a name that `package` does not define, or None."""
    root = Path(__file__).parents[1]
    if name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is not None:
        return None
    for home in (root, *sorted(path.parent for path in root.glob("*/__init__.py"))):
        if name in _list_public_names(home):
            address = ".".join([root.name, *home.relative_to(root).parts])
            return f"Write `from {address} import {name}`."
    for folder in [path.parent for path in root.glob(f"*/{name}*") if path.stem == name]:
        return f"Write `from {root.name}.{folder.name} import {name}`."
    for line, pattern in _IMPORTS.items():
        if re.fullmatch(pattern, name):
            return f"Write {line}."
    names = _list_public_names(root.joinpath(*package.split(".")[1:]))
    near = difflib.get_close_matches(name, names, 1, 0.8)
    return f"Did you mean {near[0]!r}?" if near else None


def _list_public_names(folder):
    """Returns the names in an `__init__.py`: imports and keys of dicts. Imports nothing."""
    names = []
    for node in ast.walk(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Dict):
            names += [key.value for key in node.keys if isinstance(key, ast.Constant)]
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]

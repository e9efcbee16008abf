"""Errors that suggest the correct call if a user tries a name from another library.

The decorator `@first_guesses("Name")` makes the attributes in `GUESSES["Name"]` raise
`AttributeError`, so that `hasattr` returns False. With `@known_arguments("Name.method")`, unknown
keyword arguments raise `InputError`. `import_hint` explains names that cannot be imported.
docs/migration.md has the complete tables.
"""

import ast
import difflib
import functools
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from keras_bert_impl.io.errors import InputError

_ROOT = Path(__file__).parent
# Suggested import -> pattern of names in transformers, sentence-transformers, KerasHub, Model
# Garden, keras-bert or bert-for-tf2. The first match is used.
_IMPORTS = {
    "Tokenizer.from_pretrained(name)": r".*Tokenizer(Fast)?|load_vocabulary",
    "TextClassifier.from_pretrained(name, num_classes=2)": (
        r".*ForSequenceClassification|.*TextClassifier|CrossEncoder|BertClassifier|pipeline"
    ),
    'TokenClassifier.from_pretrained(name, labels=["O", "B-X", "I-X"])': (
        r".*ForTokenClassification|BertTokenClassifier"
    ),
    "QuestionAnswerer.from_pretrained(name)": r".*ForQuestionAnswering|BertSpanLabeler",
    "MultipleChoice.from_pretrained(name)": r".*ForMultipleChoice",
    "CausalLM.from_pretrained(name)": r".*(ForCausalLM|GPT2LMHeadModel|\wCausalLM)",
    "MaskedLM.from_pretrained(name)": r".*(ForMaskedLM|LMHeadModel|\wMaskedLM)",
    "NextSentencePredictor.from_pretrained(name)": r".*ForNextSentencePrediction",
    'Pretrainer.from_pretrained(name, objectives=["masked_lm"])': r".*ForPreTraining|BertPretrainer(V2)?",
    "TextEmbedder.from_pretrained(name).encode(texts)": r"SentenceTransformer.*",
    'EncoderConfig.named("bert-base-uncased")': r".*Config",
    "Encoder.from_pretrained(name)": (
        r"(TF|Flax)?[A-Z]\w*(Model|Backbone|Layer)|\w*BertEncoder|get_model|"
        r"build_transformer_model|load_trained_model_from_checkpoint|extract_embeddings"
    ),
    "model.fit(texts, labels)  # the inputs are strings": (
        r".*(Trainer|TrainingArguments)|.*Preprocessor|\w*[dD]ata_?[cC]ollator\w*|Input\w+"
    ),
    "AdamW(LinearWarmupDecay(3e-5, 100, 1000))": r"create_optimizer|get_\w*schedule\w*|WarmUp",
    'Encoder.from_pretrained(name, adapter=Adapter("lora"))': r"LoraConfig|get_peft_model",
}
# Arguments, with a value -> names in other libraries.
_ARGUMENTS = {
    "num_classes=2": "num_labels",
    'labels=["bad", "good"]': "id2label label2id",
    'dtype="mixed_bfloat16"': "torch_dtype",
    "dropout=0.1": "hidden_dropout_prob",
    "attention_dropout=0.1": "attention_probs_dropout_prob",
    "max_length=128": "sequence_length max_sequence_length max_position_embeddings",
    "length=128": "max_length sequence_length max_seq_length",
    "hidden_dim=768": "hidden_size",
    "num_layers=12": "num_hidden_layers",
    "num_heads=12": "num_attention_heads",
    "intermediate_dim=3072": "intermediate_size",
    "vocabulary_size=30522": "vocab_size",
    "num_segments=2": "type_vocab_size",
    'activation="gelu"': "hidden_act",
    "k=5": "top_k topk",
    "lowercase=True": "do_lower_case",
    "vocabulary=tokens": "vocab vocab_file",
    "multiple_of=8": "pad_to_multiple_of",
    "mask_rate=0.15": "mlm_probability masked_lm_prob mask_selection_rate",
    "max_new_tokens=20": "max_length max_tokens",
}
_CALL = {
    "tokenizer(texts, length=128)  # pads and truncates": "padding truncation",
    "tokenizer(texts)  # returns a dict of TensorFlow tensors": "return_tensors",
    "tokenizer.tokenize(texts)  # ids without special tokens": "add_special_tokens",
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
        "tokenizer.tokenize([text])[0]": "encode",
        "tokenizer(texts, length=128)": "encode_plus batch_encode_plus model_max_length",
        "tokenizer.detokenize(ids)": "decode batch_decode convert_tokens_to_string",
        "[tokenizer.id_to_token(i) for i in ids]": "convert_ids_to_tokens",
        "[tokenizer.token_to_id(token) for token in tokens]": "convert_tokens_to_ids",
        "tokenizer.mask_id": "mask_token_id",
        "tokenizer.pad_id": "pad_token_id",
        "tokenizer.unk_id": "unk_token_id",
        "tokenizer.cls_id": "cls_token_id bos_token_id start_token_id",
        "tokenizer.sep_id": "sep_token_id eos_token_id end_token_id",
        "tokenizer.id_to_token(tokenizer.mask_id)": "mask_token",
        "tokenizer.id_to_token(tokenizer.pad_id)": "pad_token",
        "tokenizer.vocabulary_size": "vocab_size",
        "tokenizer.vocabulary": "get_vocabulary get_vocab vocab",
        'tokenizer.add_tokens(["[E1]"])': "add_special_tokens",
        "tokenizer.save_pretrained(directory)": "save_to_preset",
        "Tokenizer.from_pretrained(name)": "from_preset",
    },
    "Optimizer": {"optimizer.learning_rate": "lr _decayed_lr"},
    "Tokenizer.__call__": _CALL,
    "Tokenizer.tokenize": _CALL,
    "TaskModel": {
        "`keras-bert models`  # lists the published models": "presets",
        "from_pretrained(name)  # also reads presets": "from_preset",
        "model.save_pretrained(directory)": "save_to_preset push_to_hub",
        'from_pretrained(name, adapter=Adapter("lora", size=4))': "enable_lora",
        "model.encoder": "backbone bert roberta distilbert albert electra base_model",
        "model.tokenizer": "preprocessor",
        "model.predict(texts)": "generate predict_proba predict_classes predict_generator",
        "model.fit(batches, steps_per_epoch=100)": "fit_generator train",
        "model.evaluate(batches, steps=100)": "evaluate_generator",
        "model.max_length": "max_seq_length",
        "model.labels": "id2label label2id classes_",
        "model.num_classes": "num_labels",
        'from_pretrained(name, dtype="mixed_bfloat16")': "half",
        "strategy = get_strategy()  # create the model in strategy.scope()": "to cuda",
        "keras_bert_impl.conversion.vocabulary_augmentation.add_tokens(name, directory, tokens)": "resize_token_embeddings",
    },
    "TaskModel.from_pretrained": {
        "from_pretrained(name)  # loads its tokenizer": "preprocessor",
        "from_pretrained(name, num_classes=3)  # creates a new head": "ignore_mismatched_sizes",
        "from_pretrained(name)  # never runs code of a model": "trust_remote_code",
        "from_pretrained(name)  # detects the file format": "from_tf from_pt from_flax",
        "TextClassifier(Encoder.from_pretrained(name), tokenizer, num_classes=2)": (
            "tokenizer encoder"
        ),
        'from_pretrained(name).encoder.with_outputs("hidden_states")': "output_hidden_states",
        'from_pretrained(name).encoder.with_outputs("attention_scores")': "output_attentions",
        'from_pretrained(name, long_texts=LongTexts("head_tail", head_tokens=16))': "head_tokens",
        'from_pretrained(name, long_texts=LongTexts("mean", max_windows=8))': "max_windows",
        'from_pretrained(name, long_texts=LongTexts("mean", doc_stride=8))': "doc_stride",
    },
    "TaskModel.compile": {"model.compile(learning_rate=5e-5)": "lr"},
    "EncoderConfig": {
        'encoder.with_outputs("hidden_states")': "output_hidden_states",
        'encoder.with_outputs("attention_scores")': "output_attentions",
    },
    "MaskedLM": {
        'model.fill(["Paris is the [MASK] of France."])': "fill_mask unmask",
        "model.pseudo_perplexity(texts)": "perplexity",
    },
    "CausalLM": {'model.generate(["Paris is"], max_new_tokens=20)': "complete continue_text"},
    "CausalLM.generate": {
        "model.generate(texts, temperature=1.0)": "do_sample",
        "model.generate([text] * 3, temperature=1.0)": "num_return_sequences n",
        "model.generate(texts)  # without beam search": "num_beams",
        'model.generate(texts, stop=["."])': "eos_token_id stop_strings stop_token_ids",
        "model.generate([text])[0].text  # only the new text": "return_full_text strip_prompt",
    },
    "QuestionAnswerer.answer": {
        "model.answer([(question, context)])[0]": "question",
        "model.answer(list(zip(questions, contexts)))": "questions",
    },
    "Encoder": {
        "Encoder.from_pretrained(name)": "from_preset",
        "`keras-bert models`  # lists the published models": "presets",
        "TextEmbedder.from_pretrained(name).encode(texts)": "encode",
        'Encoder.from_pretrained(name, adapter=Adapter("lora", size=4))': "enable_lora",
    },
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
        "TextEmbedder.from_pretrained(directory, truncate_dim=2)": "truncate_dim",
        "tf.constant(embedder.encode(texts))": "convert_to_tensor",
        "embedder.encode(texts)  # returns a NumPy array": "convert_to_numpy sentences",
        "embedder.encode(texts, verbose=1)": "show_progress_bar",
        'with tf.device("CPU"): embedder.encode(texts)': "device",
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


def known_arguments(name: str, table: str | None = None) -> Callable[[Callable], Callable]:
    """Decorator: wrong keyword arguments raise `InputError` with the correct call.

    Args:
        name: the name of the function in messages.
        table: key of `GUESSES`. Default: `name`.
    """

    def decorate(function):
        known, takes_any = _parameters(function)
        guesses = GUESSES.get(table or name, {})
        by_position = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*args, **kwargs):
            _check_known(name, guesses, kwargs, known, takes_any)
            for twice in kwargs.keys() & set(by_position[: len(args)]):
                raise InputError(
                    f"{name} received {twice!r} twice, by position and by name. Pass it by name, "
                    "and pairs of texts as one argument, (first_texts, second_texts)."
                )
            return function(*args, **kwargs)

        # With the signature (self, *args, **kwargs), `clone_model` would detect a functional model.
        checked.__signature__ = inspect.signature(function)
        return checked

    return decorate


def check_constructor(cls: type, given: Iterable[str]) -> None:
    """Raises `InputError` for an argument of `from_pretrained` that a task model cannot have."""
    known, takes_any = _parameters(vars(cls).get("__init__", cls))
    known = [name for name in known if name not in ("encoder", "tokenizer")]  # are loaded
    guesses = GUESSES["TaskModel.from_pretrained"]
    _check_known(f"{cls.__name__}.from_pretrained", guesses, given, known, takes_any)


class KnownArguments:
    """Mixin: constructors of subclasses raise `InputError` for unknown arguments.

    Subclasses in other packages are not changed.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        init = vars(cls).get("__init__")
        if init is not None and cls.__module__.startswith("keras_bert_impl."):
            decorate = known_arguments(cls.__name__, "TaskModel.from_pretrained")
            cls.__init__ = decorate(init)  # type: ignore[method-assign]  # it is being created


def import_hint(package: str, name: str) -> str | None:
    """Returns a suggestion for a name that `package` does not define, or None."""
    if name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is not None:
        return None
    for home in (_ROOT, *sorted(path.parent for path in _ROOT.glob("*/__init__.py"))):
        if name in _public_names(home):
            address = ".".join([_ROOT.name, *home.relative_to(_ROOT).parts])
            return f"Write `from {address} import {name}`."
    for line, pattern in _IMPORTS.items():
        if re.fullmatch(pattern, name):
            return f"Write {line}."
    names = _public_names(_ROOT.joinpath(*package.split(".")[1:]))
    near = difflib.get_close_matches(name, names, 1, 0.8)
    return f"Did you mean {near[0]!r}?" if near else None


def _public_names(folder):
    """Returns the names in an `__init__.py`: imports and keys of dicts. Imports nothing."""
    names = []
    for node in ast.walk(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Dict):
            names += [key.value for key in node.keys if isinstance(key, ast.Constant)]
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]


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
    for line, names in _ARGUMENTS.items():
        if str(name) in names.split() and line.partition("=")[0] in known:
            return f"write {line}."
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

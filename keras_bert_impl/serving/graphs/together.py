"""Signatures of several models in one SavedModel, which stores equal weights once."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from keras_bert_impl.models.encoder import Encoder, encoders_run_by
from keras_bert_impl.models.encoder_layers import outputs_of
from keras_bert_impl.serving.graphs.chunks import check_buckets, encoders_traced_once
from keras_bert_impl.serving.graphs.signatures import Functions, Signatures, Tensors
from keras_bert_impl.tokenizers.graphs import core_operations
from keras_bert_impl.utils.errors import InputError, shown

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SeveralSignatures(Signatures):
    """Signatures of several fine-tuned models, for one SavedModel.

    Weights that are equal in several models, such as a frozen encoder, are stored once. Each model
    has the signatures `NAME`, `NAME_pairs` and `NAME_ids`. If all models have the same task and
    tokenization, `serving_default` returns the outputs of all models, with names such as
    `NAME_label`. If the encoders of the models differ only in the pooler, as after fine-tuning with
    `tuning="head"`, `serving_default` runs the encoder once.

    Args:
        parts: dict of model name -> signatures of the model.

    Raises:
        InputError: a name is invalid or used twice, or a value is not a `Signatures` object.
    """

    def __init__(self, parts: Mapping[str, Signatures]) -> None:
        _check(parts)
        first = next(iter(parts.values()))
        super().__init__(first.encoder, first.encoder, first.tokenizer, first.max_length)
        self.parts = dict(parts)
        for part in parts.values():  # graphs with the same tokenizer store one table
            if part.tokenizer.get_config() == first.tokenizer.get_config():
                part.tokenizer = part.model.tokenizer = first.tokenizer
        self.strings, self.features_rank = first.strings, first.features_rank
        self.answers_whole_rows = all(part.answers_whole_rows for part in parts.values())
        self.answers_at_once = self.answers_whole_rows and all(
            part.tokenization == first.tokenization for part in parts.values()
        )

    @property
    def models(self) -> list[keras.Model]:
        return [part.model for part in self.parts.values()]

    def functions(self, ids_only: bool = False) -> Functions:
        check_buckets(self.buckets, self.config.max_length)
        functions = {}
        with self._trace_once(), core_operations(not self.custom_ops):
            if self.answers_at_once:
                kind = "ids" if ids_only else "serving_default"
                functions["serving_default"] = self.function(kind)
            for name, part in self.parts.items():
                part.buckets, part.whole_batches = self.buckets, self.whole_batches
                if ids_only:
                    functions[name] = part.function("ids")
                    continue
                functions[name] = part.function("serving_default")
                for kind in (*part.more(), "ids"):
                    functions[f"{name}_{kind}"] = part.function(kind)
        return functions

    def described(self) -> dict[str, Any]:
        return {"models": {name: part.described() for name, part in self.parts.items()}}

    def features(self) -> tuple[str, ...]:
        return self._first.features()

    def tokenize(self, *texts: Any) -> Tensors:
        return self._first.tokenize(*texts)

    def answers(self, features: Tensors) -> Tensors:
        answers = {name: part.answers(features) for name, part in self.parts.items()}
        return {f"{name}_{key}": a for name, part in answers.items() for key, a in part.items()}

    def as_example(self, text: str) -> str:
        for part in self.parts.values():
            text = part.as_example(text)
        return text

    def reference(self, **inputs: list) -> list[dict[str, Any]]:
        answers = {name: part.reference(**inputs) for name, part in self.parts.items()}
        return [
            {
                f"{name}_{key}": value
                for name, row in zip(answers, rows)
                for key, value in row.items()
            }
            for rows in zip(*answers.values(), strict=True)
        ]

    @property
    def _first(self):
        return next(iter(self.parts.values()))

    @contextlib.contextmanager
    def _trace_once(self) -> Iterator[None]:
        """Context in which one encoder runs for all encoders that differ only in the pooler."""
        leaders: dict[tuple, Encoder] = {}
        encoders = {part.encoder: leaders.setdefault(_make_body_key(part.encoder), part.encoder)
                    for part in self.parts.values()}  # fmt: skip
        cache: dict[tuple[int, int], tuple] = {}

        with encoders_traced_once(self.buckets) as run:

            def run_once(compute: Callable, features: dict) -> dict:
                encoder = compute.__self__  # type: ignore[attr-defined]  # a bound method
                leader = encoders.get(encoder)
                if leader is None:
                    return run(compute, features)
                ids = features["token_ids"]
                key = id(leader), id(ids)
                if key not in cache:  # A reference keeps the `id` of an object unique.
                    cache[key] = ids, run(leader._compute, features)
                outputs = cache[key][1]
                if encoder is leader:
                    return outputs
                return outputs_of(encoder, outputs["sequence_output"], features["padding_mask"])

            with encoders_run_by(run_once):
                yield


def _check(parts):
    if not (isinstance(parts, Mapping) and parts) or not all(
        isinstance(part, Signatures) for part in parts.values()
    ):
        raise InputError(
            "the signatures must be model.signatures(), or a dict such as "
            f'{{"name": model.signatures()}}. Received: {shown(parts)}'
        )
    for name in parts:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                "the name of a model may contain only letters, digits, '.', '_' and '-'. "
                f"Received: {name!r}"
            )
    names = {f"{name}_{kind}" for name, part in parts.items() for kind in (*part.more(), "ids")}
    for name in parts.keys() & {"serving_default", *names}:
        raise InputError(f"another signature is called {name}. Rename the model {name}.")


def _make_body_key(encoder):
    """Returns a key that is equal for encoders that differ only in the pooler."""
    config = dataclasses.replace(encoder.config, use_pooler=True)
    weights = [id(w.value) for w in encoder.weights if not w.path.startswith("pooler/")]
    return repr(config), encoder.compute_dtype, *weights

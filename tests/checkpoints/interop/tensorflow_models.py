"""Compares models in TensorFlow's and Flax's files with the outputs that those libraries computed.

`tools/make_tensorflow_files.py` and `tools/make_keras_files.py` write the files and describe the
folders.
"""

import tarfile
from pathlib import Path

import keras
import numpy as np

from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    head_tensors,
    open_model,
    read_encoder_config,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import load_weights
from tests.checkpoints.interop.named_heads import connected

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "tensorflow_files.tar.xz"
# Our head and the output in `transformers`, by the end of the class name.
OUTPUTS = {
    "ForMaskedLM": {"masked_lm": "logits"},
    "LMHeadModel": {"masked_lm": "logits"},
    "ForCausalLM": {"masked_lm": "logits"},
    "ForNextSentencePrediction": {"next_sentence": "logits"},
    "ForSequenceClassification": {"classifier": "logits"},
    "ForTokenClassification": {"token_classifier": "logits"},
    "ForQuestionAnswering": {"question_answerer": ("start_logits", "end_logits")},
    "ForQuestionAnsweringSimple": {"question_answerer": ("start_logits", "end_logits")},
    "ForMultipleChoice": {"multiple_choice": "logits"},
    "BertForPreTraining": {
        "masked_lm": "prediction_logits",
        "next_sentence": "seq_relationship_logits",
    },
    "AlbertForPreTraining": {"masked_lm": "prediction_logits", "sentence_order": "sop_logits"},
    "ElectraForPreTraining": {"replaced_token": "logits"},
    "Model": {None: "last_hidden_state"},
}


def unpack(directory):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory


def difference(path, is_complete=True):
    """The largest difference of an output, relative to its largest value if that is above 1."""
    stored = np.load(path / "expected.npz")
    source = open_model(path)
    (name,) = source.config.get("architectures", ["BertModel"])
    head_outputs = next(outputs for end, outputs in OUTPUTS.items() if name.endswith(end))
    ids, mask = stored["input_ids"], stored["attention_mask"]
    features = {
        "token_ids": ids,
        "segment_ids": stored["token_type_ids"] if "token_type_ids" in stored else 0 * ids,
        "padding_mask": mask,
    }
    features = {ours: x.reshape(-1, x.shape[-1]) for ours, x in features.items()}
    received = outputs_of(source, list(head_outputs), features)
    assert not is_complete or not source.unread()
    differences = []
    for head, theirs in head_outputs.items():
        parts = [theirs] if isinstance(theirs, str) else theirs
        expected = np.stack([stored[f"out_{part}"] for part in parts], -1)
        output = received[head].reshape(expected.shape)
        of_tokens = expected.shape[:2] == mask.shape and mask.ndim == 2
        real = mask == 1 if of_tokens else slice(None)
        assert np.abs(expected[real]).max() > 0.05
        largest = max(1, np.abs(expected[real]).max())
        differences.append(np.abs(output[real] - expected[real]).max() / largest)
    return max(differences)


def outputs_of(source, names, features):
    """Computes the outputs of heads, or the last states for the head None."""
    config = read_encoder_config(source)
    encoder = Encoder(config)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in features}
    states = encoder(inputs)
    count = len(source.config.get("id2label", ()))
    outputs = {name: connected(encoder, name, states, count) for name in names if name}
    model = keras.Model(inputs, outputs | {"states": states["sequence_output"]})
    tensors = encoder_tensors(config)
    for name in outputs:
        tensors += head_tensors(config, name)
    fresh = load_weights(model, source, tensors)
    assert not [path for path in fresh if "pooler" not in path]
    received = model(features)
    return {name: np.asarray(received[name or "states"]) for name in names}

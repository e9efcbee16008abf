"""Hugging Face configurations and tensor names of all architectures."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.layouts import LAYOUTS, OWN_HEADS, layout_of
from keras_bert_impl.checkpoints.interop.layouts.bert import ACTIVATIONS, TensorName, optional
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.checkpoints.published import check_family
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import Document

_log = logging.getLogger(__name__)

# Keys of `config.json` that do not affect the outputs of the encoder.
_OTHER_KEYS = frozenset(
    """
    _name_or_path _num_labels architectures auto_map bos_token_id chunk_size_feed_forward
    classifier_dropout classifier_dropout_prob directionality do_sample down_scale_factor dtype
    embed_init_std end_n_top eos_token_id finetuning_task gap_size gradient_checkpointing id2label
    id2lang is_encoder_decoder keras_bert_impl keep_multihead_output label2id lang2id lang_id
    language layerdrop mask_index mask_token_id max_length max_vocab min_count model_type
    net_structure_type num_labels num_memory_blocks num_beams output_attentions
    output_hidden_states output_past pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type problem_type pruned_heads qa_dropout return_dict
    seq_classif_dropout share_embeddings sinusoidal_pos_embds start_n_top summary_activation
    summary_first_dropout summary_last_dropout summary_proj_to_labels summary_type
    summary_use_proj task_specific_params tie_weights_ tie_word_embeddings torch_dtype torchscript
    transformers_version unk_index use_bfloat16 use_cache use_lang_emb xla_device
    bos_index eos_index pad_index emb_dim n_layer n_heads
    cls_token_id sep_token_id deterministic_flash_attn initializer_cutoff_factor layer_norm_eps
    position_embedding_type reference_compile repad_logits_with_grad sparse_prediction
    sparse_pred_ignore_index attention_mode ignore_attention_mask onnx_export
    n_ctx predict_special_tokens reorder_and_upcast_attn
    """.split()
)


def encoder_config(config: dict, source: str | Path = "config.json") -> EncoderConfig:
    """Converts the content of a `config.json` to an `EncoderConfig`; errors name the `source`."""
    document = Document(config, source)
    check_family(document)
    layout = LAYOUTS[document.text("model_type", "bert")]
    _check_classes(document, layout)
    _check_fixed(document, layout.fixed)
    stated = layout.stated(document)
    try:
        fields = layout.to_fields(layout.silent | stated)
        fields["activation"] = _convert_activation(fields.get("activation", "gelu"), layout)
        return EncoderConfig(architecture=layout.architecture, **fields)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _check_fixed(config, fixed):
    for key, value in fixed.items():
        if config.get(key, value) != value:
            raise InputError(
                f"{config.source}: {key} is {shown(config[key])}; only {value!r} is supported."
            )


def _check_classes(config, layout):
    classes = set(layout.classes.values())
    other_classes = {
        name for layout in LAYOUTS.values() for name in layout.classes.values()
    } - classes
    for name in config.list_of("architectures", str, []):
        if name in other_classes:
            raise InputError(
                f"{config.source}: model_type is {layout.model_type!r}, but architectures has "
                f"{name}."
            )


def _convert_activation(name, layout):
    if name not in ACTIVATIONS:
        raise InputError(
            f"{layout.keys['activation']} is {shown(name)}; supported are {', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[name]


def read_encoder_config(
    directory: ModelSource, with_adapter: bool = False, head: str | None = None
) -> EncoderConfig:
    """Reads the `EncoderConfig` of a model directory.

    Args:
        with_adapter: Whether to accept a model with an adapter. Pass True only if the adapter's
            weights are loaded afterwards.
        head: Head of the model, such as `"classifier"`. If the model has this head, the settings of
            the head are checked too.

    Raises:
        InputError: `config.json` is not supported (see `encoder_config`), the weights of some
            layers are missing, or the model has an adapter and `with_adapter` is False.
    """
    config = encoder_config(directory.config, directory.path / "config.json")
    layout = layout_of(config)
    directory.prefix = layout.prefix
    if has_head(directory, config, head):
        _check_fixed(directory.config, layout.fixed_in_heads.get(head, {}))
    unknown = set(directory.config) - _OTHER_KEYS - {*layout.keys.values(), *layout.fixed}
    if unknown:
        _log.warning(
            "%s: unknown keys are ignored: %s",
            directory.path,
            ", ".join(f"{key:.60}" for key in sorted(unknown)[:20]),
        )
    if (config.num_layer_groups or config.num_layers) > len(directory):
        raise InputError(
            f"{directory.path}: config.json has {config.num_layers} layers, but the weights "
            f"have only {len(directory)} tensors."
        )
    if directory.adapter is not None and not with_adapter:
        raise InputError(
            "a model with an adapter can only be loaded for the task for which it was "
            "fine-tuned. If the adapter is LoRA, `keras-bert merge` creates a model without an "
            "adapter."
        )
    return dataclasses.replace(config, adapter=directory.adapter)


def huggingface_config(
    config: EncoderConfig, head: str | None = None, **more: Any
) -> dict[str, Any]:
    """Creates the content of a `config.json` from an `EncoderConfig`.

    Args:
        head: The model's head, which determines its class in `transformers`.
        **more: Additional keys, such as `id2label`.

    Raises:
        InputError: `config.json` does not support a setting of the encoder for this architecture.
    """
    layout = layout_of(config)
    if head not in layout.classes:
        raise InputError(f"transformers has no class for {layout.model_type} with a {head!r} head.")
    fields = config.to_dict()
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    settings = layout.to_settings(fields)
    settings["activation"] = theirs.get(settings["activation"], settings["activation"])
    written = {
        "architectures": [layout.classes[head]],
        "model_type": layout.model_type,
        **{layout.keys[name]: value for name, value in settings.items()},
        **layout.fixed,
        **more,
    }
    read = encoder_config(written).to_dict()
    lost = [name for name in read if read[name] != fields[name] and name != "use_pooler"]
    if lost:
        raise InputError(
            f"a {config.architecture} model directory cannot express "
            f"{', '.join(f'{name}={fields[name]!r}' for name in lost)}."
        )
    return written


def encoder_tensors(config: EncoderConfig) -> list[TensorName]:
    """Returns the names of all tensors of an encoder."""
    return layout_of(config).encoder_tensors(config)


def all_tensors(config: EncoderConfig) -> tuple[list[TensorName], list[TensorName]]:
    """Returns the tensor names of an encoder and of all heads of its architecture."""
    heads = _collect_heads(config).values()
    names = {name.tensor: name for head in heads for name in optional(head)}
    return encoder_tensors(config), list(names.values())


def head_tensors(config: EncoderConfig, head: str) -> list[TensorName]:
    """Returns the tensor names of a head, such as `"masked_lm"` or `"classifier"`.

    All tensors are optional, because a base model has no head.
    """
    heads = _collect_heads(config)
    if head not in heads:
        raise InputError(
            f"head must be one of {', '.join(heads)} for {layout_of(config).model_type}. "
            f"Received: {head!r}"
        )
    return optional(heads[head])


def _collect_heads(config):
    heads = layout_of(config).heads()
    return heads | {name: names for name, names in OWN_HEADS.items() if name not in heads}


def has_class(config: EncoderConfig, head: str | None) -> bool:
    """Returns whether `transformers` has a class with this encoder and head."""
    return head in layout_of(config).classes


def has_key(config: EncoderConfig, field: str) -> bool:
    """Returns whether the encoder's `config.json` can contain an `EncoderConfig` field."""
    return field in layout_of(config).keys


def tied_tensors(config: EncoderConfig) -> dict[str, str]:
    """Maps names of duplicate tensors, such as the decoder weight, to the original names."""
    return layout_of(config).tied_tensors()


def tensor_prefix(config: EncoderConfig) -> str:
    """Returns the prefix that encoder tensor names have in models with a head."""
    return layout_of(config).prefix + "."


def class_of(config: EncoderConfig, head: str | None) -> str:
    return layout_of(config).classes[head]


def has_head(directory: ModelSource, config: EncoderConfig, head: str | None) -> bool:
    """Returns whether the class in `config.json` has the given head."""
    stated = directory.config.list_of("architectures", str, [])
    return has_class(config, head) and stated == [class_of(config, head)]


def classifier_dropout(directory: ModelSource, config: EncoderConfig) -> float | None:
    """Returns the dropout rate before the classifier in `config.json`, or None if it is missing."""
    return directory.config.number(classifier_dropout_key(config), None, least=0, below=1)


def classifier_dropout_key(config: EncoderConfig) -> str:
    """Returns the key of `config.json` for the dropout rate before a classifier."""
    return layout_of(config).dropout_key

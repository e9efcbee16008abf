"""A worker process that builds blocks for `prepare`. It is imported without TensorFlow."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import threading
from typing import TYPE_CHECKING, Any

from keras_bert_impl.utils.lazy import import_tensorflow_alone

if TYPE_CHECKING:
    from keras_bert_impl.pretraining.corpus import blocks

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from malloc.h
_worker: dict[str, Any] = {}  # settings and tokenizer of this process


def start(tokenizer_directory: str, settings: dict[str, Any]) -> None:
    """Initializes a worker process: loads the tokenizer, and limits TensorFlow to one CPU core."""
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    keep_freed_memory()
    import_tensorflow_alone()
    import tensorflow as tf

    from keras_bert_impl.pretraining.corpus import blocks
    from keras_bert_impl.pretraining.corpus.blocks import WordTokens
    from keras_bert_impl.tokenizers import Tokenizer

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokenizer = Tokenizer.from_pretrained(tokenizer_directory)
    _worker["settings"] = blocks.Settings(**settings)
    _worker["word_tokens"] = WordTokens(tokenizer, _worker["settings"].segmented)
    gc.freeze()  # otherwise each garbage collection traverses all TensorFlow objects


def keep_freed_memory() -> None:
    """Configures glibc to keep up to 64 MiB of freed memory for reuse by this process."""
    with contextlib.suppress(AttributeError):  # only in glibc
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, 32 << 20)
        set_option(_M_TRIM_THRESHOLD, 64 << 20)


def build_block(text_block: blocks.TextBlock) -> blocks.BuiltBlock:
    from keras_bert_impl.pretraining.corpus import blocks

    return blocks.build_block(text_block, _worker["settings"], _worker["word_tokens"])


def _stop_with_parent():
    # Without this, a worker waits forever for a block if its parent process is killed.
    multiprocessing.parent_process().join()
    os._exit(1)

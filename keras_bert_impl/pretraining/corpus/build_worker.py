"""A process that builds blocks for `prepare`; to import this loads nothing heavy."""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import threading

from keras_bert_impl.lazy import import_tensorflow_alone

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_worker = {}  # of this process: the settings and the tokenizer


def start(tokenizer_directory, settings):
    """Readies the process: one core, no accelerator, its own tokenizer.

    Args:
        tokenizer_directory: str.
        settings: dict, of `blocks.Settings`, whose class would load TensorFlow on its way here.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    import_tensorflow_alone()
    import pyarrow as pa
    import tensorflow as tf

    from keras_bert_impl.pretraining.corpus import blocks
    from keras_bert_impl.pretraining.corpus.word_tokens import WordTokens
    from keras_bert_impl.tokenizers import Tokenizer

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    pa.set_memory_pool(pa.system_memory_pool())  # which gives back what is free: 30 MB less
    _worker["word_tokens"] = WordTokens(Tokenizer.from_pretrained(tokenizer_directory))
    _worker["settings"] = blocks.Settings(**settings)
    gc.freeze()  # the search for garbage would go through all of TensorFlow again and again


def keep_freed_memory():
    """Lets this process keep up to 64 MiB that its arrays have freed, for the next ones.

    The C library would give it back to the system, which clears every page anew: a tenth of the
    time of `prepare`. It cannot be undone, so it is for processes of this package alone.
    """
    with contextlib.suppress(AttributeError):  # only glibc has it
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, 32 << 20)
        set_option(_M_TRIM_THRESHOLD, 64 << 20)


def build(text_block):
    """`blocks.build` in a process that has been started."""
    from keras_bert_impl.pretraining.corpus import blocks

    return blocks.build(text_block, _worker["settings"], _worker["word_tokens"])


def _end_with_parent():
    # The worker of a process that was killed would wait for ever for a block, in all its memory.
    multiprocessing.parent_process().join()
    os._exit(1)

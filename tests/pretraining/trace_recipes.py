"""Traces the step of recipes under a TPUStrategy on a CPU, and compiles it with XLA.

Prints one line of JSON per recipe and row length. Everything but the sizes is the recipe's: two
layers (four for a teacher) of width 32, two rows per micro-batch, and a synthetic language of 200
words.
"""

import collections
import dataclasses
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import tensorflow as tf

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import encoder_config, huggingface_config
from keras_bert_impl.models.conversion.formats import student_of
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.building import build_pretrainer, make_schedule, masking
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.masking.dataset import pretraining_dataset
from keras_bert_impl.pretraining.objectives import MaskedLM
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.recipes import model_file, recipes
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.tokenizers import WordPieceTokenizer
from tests.pretraining.conftest import SPECIAL, WORDS
from tests.training.trace_on_tpu import pretended_strategy

WIDTH = 32
# Padding has id 1, as RoBERTa's files require.
TOKENIZER = WordPieceTokenizer([SPECIAL[1], SPECIAL[0], *SPECIAL[2:], *WORDS])


def tiny(config, **changes):
    """Copies a configuration with tiny sizes."""
    sizes = {
        "vocabulary_size": TOKENIZER.vocabulary_size,
        "pad_token_id": TOKENIZER.pad_id,
        "hidden_dim": WIDTH,
        "num_heads": 4,
        "num_layers": 2,
        "intermediate_dim": 2 * WIDTH,
        "embedding_dim": config.embedding_dim and WIDTH // 2,
    }
    return dataclasses.replace(config, **sizes | changes)


def write_config(name, path, **changes):
    """Writes the tiny configuration file of a recipe's model."""
    if name.endswith(".json"):
        config = encoder_config(json.loads(model_file(name).read_text(encoding="utf-8")))
    else:
        config = EncoderConfig.named(name)
    path.write_text(json.dumps(huggingface_config(tiny(config, **changes))), encoding="utf-8")
    return str(path)


def write_model(name, path, **changes):
    """Writes a model directory for recipes that start from one."""
    config = tiny(EncoderConfig.named(name), **changes)
    Pretrainer(Encoder(config), [MaskedLM()]).save_pretrained(path)
    return str(path)


def tiny_settings(name, folder):
    """Returns the recipe's settings for models of these sizes."""
    recipe = recipes()[name]
    rows = 2 * recipe.get("accumulation_steps", 1)
    changes = {"batch_size": rows, "first_batch_size": None, "ramp_steps": 0}
    if name == "domain_adapt":
        changes["model"] = write_model("roberta-base", folder / "roberta")
    elif name == "distilbert":
        changes["teacher"] = write_model("bert-base-uncased", folder / "teacher", num_layers=4)
        student_of(changes["teacher"], folder / "student", layers=2)
        changes["model"] = str(folder / "student")
    else:
        changes["model"] = write_config(recipe["model"], folder / f"{name}.json")
    if name == "tinybert_4l":
        wide = {"num_layers": 4, "hidden_dim": 2 * WIDTH}
        changes["teacher"] = write_model("bert-base-uncased", folder / "large", **wide)
    if recipe.get("generator"):
        narrow = {"hidden_dim": WIDTH // 2, "num_heads": 2, "embedding_dim": WIDTH}
        file = folder / "generator.json"
        changes["generator"] = write_config(recipe["generator"], file, **narrow)
    if recipe.get("long_records_length"):
        changes["long_records"] = "given"
    return PretrainSettings(**recipe | changes)


def write_corpus(path):
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(5, 30))) for _ in range(400)]
    documents = ["\n".join(lines[at : at + 20]) for at in range(0, 400, 20)]
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def operations(graph):
    """Counts the operations of each kind in a graph and its functions."""
    graph = graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return collections.Counter(node.op for node in nodes)


def trace(settings, records, strategy):
    """Returns the properties of a step on rows of these records."""
    names = settings.objectives
    data = pretraining_dataset(
        records,
        settings.batch_size,
        objectives=names,
        masking=masking(settings),
        tokenizer=TOKENIZER,
    )
    with strategy.scope():
        model = build_pretrainer(settings, names, TOKENIZER, make_schedule(settings))
        model.optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def step(*batch):
        strategy.run(model.train_step, args=(batch,))

    on_tpu = operations(step.get_concrete_function(*data.element_spec).graph)
    totals = sum(len(objective.output_names) for objective in model.objectives)

    alone = build_pretrainer(settings, names, TOKENIZER, make_schedule(settings))
    alone.optimizer.build(alone.trainable_variables)
    compiled = tf.function(alone.train_step, jit_compile=True, autograph=False)
    batch = next(iter(data))
    loss = compiled(batch)["loss"]
    specs = tf.nest.flatten(data.element_spec)
    return {
        "length": batch[0]["token_ids"].shape[1],
        "is_static": all(spec.shape.is_fully_defined() for spec in specs),
        "sums": len(model.trainable_variables) + totals + 2,
        "on_tpu": on_tpu,
        "hlo": compiled.experimental_get_compiler_ir(batch)(stage="hlo"),
        "loss": float(loss),
    }


def main(*names):
    strategy = pretended_strategy()
    folder = Path(tempfile.mkdtemp())
    corpus, records = write_corpus(folder / "corpus.txt"), {}
    for name in names:
        settings = tiny_settings(name, folder)
        for length in filter(None, (settings.records_length, settings.long_records_length)):
            key = length, settings.records_objective
            if key not in records:
                records[key] = folder / "-".join(map(str, key))
                prepare(corpus, records[key], TOKENIZER, *key, num_workers=1)
            facts = trace(settings, records[key], strategy)
            # HLO marks dynamic dimensions with a bound, `<=`.
            facts["dynamic"] = facts.pop("hlo").count("<=")
            print(json.dumps({"name": name} | facts), flush=True)
    shutil.rmtree(folder)
    # The strategy's destructor would contact the TPU system.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

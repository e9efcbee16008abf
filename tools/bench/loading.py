"""Measures the time and memory needed to load BERT-base: this package, KerasHub and transformers.

    PYTHONPATH=. python tools/bench/loading.py

Writes a model with the published shape and random weights in every format that this package reads.
Each file is loaded in a separate process, one at a time, in a new random order in every round. Time
and memory are measured only for the loading function, after the library has been imported and has
run an operation.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

# (preparation, measured code) of each library, run in separate Python processes.
_OURS = (
    "import tensorflow as tf; from keras_bert_impl import Encoder; tf.constant(1.0) + 1.0",
    "Encoder.from_pretrained(path)",
)
_KERAS_HUB = (
    "import tensorflow as tf; from keras_hub.models import Backbone; tf.constant(1.0) + 1.0",
    "Backbone.from_preset(path)",
)
_TRANSFORMERS = (
    "import torch; from transformers import BertModel; torch.ones(1) + 1",
    "BertModel.from_pretrained(path)",
)
_PROGRAM = """
import json, sys, time
{ready}

def memory(name):  # KiB
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1])

path = sys.argv[1]
before, started, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
model = {load}
report = {{"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}}
print(json.dumps(report | {{"memory": memory("VmHWM") - before}}))
"""


def main(arguments=None):
    """Runs the benchmark and prints a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args(arguments).rounds
    with tempfile.TemporaryDirectory() as folder:
        systems, weights = write_models(Path(folder))
        reports = {name: [] for name in systems}
        order, names = random.Random(0), list(systems)
        for number in range(rounds):
            order.shuffle(names)
            for name in names:
                reports[name].append(load(*systems[name]))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    print("| system | seconds | CPU seconds | most memory, times the weights |")
    print("|---|---|---|---|")
    for name, runs in reports.items():
        cells = [harness.spread([r[key] for r in runs], 2) for key in ("seconds", "cpu_seconds")]
        cells.append(harness.spread([r["memory"] * 1024 / weights for r in runs], 2))
        print(f"| {name} | {' | '.join(cells)} |")


def write_models(folder):
    """Writes one model in all formats.

    Returns:
        (systems, weights): dict from names to (ready, load, directory); int, size of the weights in
        bytes.
    """
    import torch
    import transformers

    from keras_bert_impl.models.conversion.formats import convert

    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(hidden_act="gelu_new"))
    model.save_pretrained(folder / "whole")
    model.save_pretrained(folder / "shards", max_shard_size="100MB")
    model.config.save_pretrained(folder / "pytorch")
    torch.save(model.state_dict(), folder / "pytorch" / "pytorch_model.bin")
    convert(folder / "whole", folder / "google", "google")
    convert(folder / "whole", folder / "preset", "keras_hub")
    systems = {
        "ours, `model.safetensors`": (*_OURS, folder / "whole"),
        "ours, five shards of it": (*_OURS, folder / "shards"),
        "ours, `pytorch_model.bin`": (*_OURS, folder / "pytorch"),
        "ours, `bert_model.ckpt`": (*_OURS, folder / "google"),
        "ours, KerasHub's preset": (*_OURS, folder / "preset"),
        "KerasHub `Backbone.from_preset`, the same": (*_KERAS_HUB, folder / "preset"),
        "transformers `BertModel`, `model.safetensors`": (*_TRANSFORMERS, folder / "whole"),
        "transformers `BertModel`, `pytorch_model.bin`": (*_TRANSFORMERS, folder / "pytorch"),
    }
    return systems, 4 * sum(tensor.numel() for tensor in model.parameters())


def load(ready, load, directory):
    """Loads a file in a separate process; returns `seconds`, `cpu_seconds` and `memory` (KiB)."""
    program = _PROGRAM.format(ready=ready, load=load)
    command = [sys.executable, "-c", program, str(directory)]
    environment = os.environ | {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(process.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()

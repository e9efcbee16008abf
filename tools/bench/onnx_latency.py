"""Measures the latency of encoders in ONNX Runtime: our graphs and graphs from transformers.

    PYTHONPATH=. python tools/bench/onnx_latency.py --model DIR --shapes 1x32 1x128 32x128

The peer is a model of `transformers`, exported with `torch.onnx.export` as in `optimum`, and fused
by `onnxruntime.transformers.optimizer`. The PyTorch model is also measured. All systems get the
same token ids without padding. Each system runs in a separate process, one at a time, in a new
random order in every round. Times are per batch.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import harness
import numpy as np

_BASELINE = "ours"
_AXES = {0: "batch", 1: "length"}
_SECONDS = 0.1  # approximate CPU seconds per report


def main(arguments=None):
    """Runs the benchmark and prints a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", required=True, help="model directory, or a published name for random weights"
    )
    parser.add_argument("--shapes", nargs="+", default=["1x32", "1x128", "1x384"])
    parser.add_argument(
        "--systems",
        nargs="+",
        help="of ours, ours-standard, ours-int8, peer, pytorch; default: all",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        harness.serve(_prepare_work(*options.serve, options.threads))
        return
    with tempfile.TemporaryDirectory() as folder:
        systems = write_models(options.model, Path(folder))
        systems = {name: systems[name] for name in options.systems or systems}
        print("| batch x length | system | ms | CPU ms | ratio by CPU time |")
        print("|---|---|---|---|---|")
        for shape in options.shapes:
            commands = {
                name: [sys.executable, __file__, "--model", "", "--threads", str(options.threads)]
                + ["--serve", kind, str(path), shape]
                for name, (kind, path) in systems.items()
            }
            reports = harness.measure(commands, options.rounds, options.threads)
            print("\n".join(_format_lines(shape, reports)), flush=True)


def _format_lines(shape, reports):
    def times(name, key):
        return [1e3 * report[key] / report["batches"] for report in reports[name]]

    for name in reports:
        base = times(_BASELINE, "cpu_seconds")
        ratios = [a / b for a, b in zip(times(name, "cpu_seconds"), base, strict=True)]
        cells = [harness.spread(times(name, key), 1) for key in ("seconds", "cpu_seconds")]
        yield f"| {shape} | {name} | {' | '.join(cells)} | {harness.spread(ratios, 2)} |"


def write_models(name, folder):
    """Writes one encoder in all formats.

    Returns:
        dict from system names to (`"onnx"` or `"pytorch"`, path).
    """
    from keras_bert_impl import Encoder, EncoderConfig
    from keras_bert_impl.serving.onnx import export_onnx

    if Path(name).is_dir():
        encoder = Encoder.from_pretrained(name, use_pooler=False)
    else:
        encoder = Encoder(EncoderConfig.named(name, use_pooler=False))
    ours = {
        "ours": {},
        "ours-standard": {"fused": False},
        "ours-int8": {"precision": "int8"},
    }
    systems = {}
    for system, settings in ours.items():
        print(system, export_onnx(encoder, folder / system, **settings), file=sys.stderr)
        systems[system] = "onnx", folder / system / "model.onnx"
    encoder.save_pretrained(folder / "pytorch")
    traced = _load_pytorch_model(folder / "pytorch"), folder / "pytorch", "last_hidden_state", _AXES
    systems["peer"] = "onnx", traced_and_fused(*traced)
    systems["pytorch"] = "pytorch", folder / "pytorch"
    return systems


def traced_and_fused(model, directory, output, output_axes):
    """Exports a `transformers` model to ONNX, traced and fused; returns the path.

    Args:
        model: PyTorch model; its first output is traced.
        directory: `Path` to write to.
        output: str, name of the output.
        output_axes: dict of its dynamic dimensions, from axis numbers to names.
    """
    import torch
    from onnxruntime.transformers import optimizer

    names = list(_make_inputs(1, 8))
    size = model.config.vocab_size
    example = tuple(torch.from_numpy(array) % size for array in _make_inputs(2, 8).values())
    traced, fused = directory / "traced.onnx", directory / "fused.onnx"

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            return self.model(**dict(zip(names, inputs)), return_dict=False)[0]

    torch.onnx.export(
        First().requires_grad_(False),
        example,
        str(traced),
        input_names=names,
        output_names=[output],
        dynamic_axes=dict.fromkeys(names, _AXES) | {output: output_axes},
        opset_version=17,
        dynamo=False,
    )
    config = model.config
    optimized = optimizer.optimize_model(
        str(traced), "bert", config.num_attention_heads, config.hidden_size, opt_level=0
    )
    print("peer, fused:", optimized.get_fused_operator_statistics(), file=sys.stderr)
    optimized.save_model_to_file(str(fused))
    return fused


def _load_pytorch_model(directory, attention="eager"):
    import transformers

    settings = {"attn_implementation": attention, "add_pooling_layer": False}
    return transformers.AutoModel.from_pretrained(directory, **settings).eval()


def _make_inputs(batch, length):
    """Returns a dict of int64 arrays `[batch, length]`."""
    ids = np.random.default_rng(0).integers(1000, 20000, (batch, length))
    mask = np.ones_like(ids)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


# === The workers ===


def _prepare_work(kind, path, shape, threads):
    """Returns the function to be measured, with enough batches for a measurable time."""
    inputs = _make_inputs(*map(int, shape.split("x")))
    run = {"onnx": _load_onnx, "pytorch": _load_pytorch}[kind](path, inputs, threads)
    run()
    started = time.process_time()
    run()
    batches = max(1, round(_SECONDS / (time.process_time() - started)))

    def work():
        for _ in range(batches):
            run()
        return {"batches": batches}

    return work


def _load_onnx(path, inputs, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # no spinning threads; see `harness`
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def _load_pytorch(path, inputs, threads):
    import torch

    torch.set_num_threads(threads)
    model = _load_pytorch_model(path, "sdpa")
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}

    def run():
        with torch.inference_mode():
            model(**tensors)

    return run


if __name__ == "__main__":
    main()

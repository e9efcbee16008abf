"""Exports, requests to their server, runs and adapters for `tests.mutated_kinds`."""

import gc
import json
import shutil
from pathlib import Path

from keras_bert_impl.utils.errors import InputError

ADAPTERS = Path(__file__).parent / "checkpoints" / "interop" / "adapterhub" / "bert"


def _files(folder):
    return [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file()]


def _export(folder):
    from keras_bert_impl.serving import export_version
    from tests.serving.families import signatures_of

    return export_version(signatures_of("single_label"), folder / "reviews")


def saved_model(folder):
    """Changes the files of an export, which a server loads."""
    from keras_bert_impl.serving.server.feedback import Feedback
    from keras_bert_impl.serving.server.model import load, read_description
    from keras_bert_impl.serving.server.wire import ApiError

    version = _export(folder)
    columns = {"text": "body", "label": "mood"}
    (version / "assets.extra/columns.json").write_text(json.dumps(columns))
    graph = f"reviews/{version.name}/saved_model.pb"
    names = [name for name in _files(folder) if not name.endswith((".md", ".pbtxt"))]

    def read(folder):
        directory = folder / "reviews" / version.name
        try:
            description = read_description(directory)
            Feedback(folder / "feedback.jsonl", print).check(description)
            load(directory, 1, description)
        except ApiError as error:
            raise InputError(str(error)) from error
        finally:
            gc.collect()  # as after the exchange of versions

    return [*names, *[graph] * len(names)], read


def requests(folder):
    """Changes requests over HTTP and gRPC, which a server must answer or reject."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

    from tests.serving.server.garbage import BODIES, PREDICT
    from tests.serving.server.servers import running
    from tests.serving.server.test_grpc_service import request_of

    _export(folder / "served")
    for number, body in enumerate(BODIES):
        (folder / f"{number}.predict.json").write_text(json.dumps(body))
    label = {"request_id": "0", "label": "positive", "row": 0}
    (folder / "0.feedback.json").write_text(json.dumps(label))
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    status = get_model_status_pb2.GetModelStatusRequest()
    metadata.model_spec.name = status.model_spec.name = "reviews"
    service = PREDICT.rpartition("/")[0]
    messages = {
        "ids": (PREDICT, request_of({"text": tf.constant(["a", "b"])}, "reviews")),
        "metadata": (f"{service}/GetModelMetadata", metadata),
        "status": ("/tensorflow.serving.ModelService/GetModelStatus", status),
    }
    for name, (_, message) in messages.items():
        (folder / f"{name}.grpc").write_bytes(message.SerializeToString())
    server = running(
        folder / "served" / "reviews", grpc=True, feedback=folder / "served" / "labels"
    )
    client = server.__enter__()
    call = grpc.insecure_channel(f"127.0.0.1:{client.grpc_port}").unary_unary

    def read(folder):
        for path in folder.glob("*.json"):
            method = path.suffixes[0].removeprefix(".")
            status, answer = client.predict(path.read_bytes(), method=method)
            if status >= 500:
                raise RuntimeError(f"{status}: {answer}")
        for name, (method, _) in messages.items():
            try:
                call(method)((folder / f"{name}.grpc").read_bytes(), timeout=30)
            except grpc.RpcError as error:
                if error.code().name in ("UNKNOWN", "INTERNAL"):
                    raise

    read.server = server  # runs until the end of the process
    return [name for name in _files(folder) if "/" not in name], read


def hub_module(name, folder):
    """Changes a SavedModel of TF Hub, which is opened without running its graph."""
    from keras_bert_impl.checkpoints.interop import open_model
    from tests.checkpoints.interop.google_models import unpacked

    unpacked(name, folder)
    (folder / name / "expected.npz").unlink()

    def read(folder):
        source = open_model(folder / name)
        for tensor in source.unread():
            source.read(tensor)

    return _files(folder), read


def adapter(name, folder):
    """Changes the files of an adapter of AdapterHub or PEFT for a small BERT."""
    from keras_bert_impl.checkpoints.interop import open_model

    shutil.copytree(ADAPTERS / "base", folder / "base")
    shutil.copytree(ADAPTERS / name, folder / name)
    return _files(folder), lambda folder: open_model(folder / name, base=folder / "base").unread()


def run_files(folder):
    """Changes the files of a run, which a report and evaluations read."""
    from keras_bert_impl.checkpoints import cards
    from keras_bert_impl.data.prediction_files import read_column, read_predictions_table
    from keras_bert_impl.reports import plots
    from keras_bert_impl.reports.run_files import read_run, runs_of
    from keras_bert_impl.runs.feedback import by_week
    from keras_bert_impl.tasks.embedding.vector_source import read_source
    from keras_bert_impl.training.runs.reports import read_metrics
    from keras_bert_impl.training.runs.run_directory import RunDirectory

    part = {"source": "s", "examples": 2, "sha256": "0"}
    score = {"accuracy": 0.5, "loss": 1.0}
    keys = {"prediction": "a", "correct": True, "version": 1, "request_id": "0"}
    line = keys | {"time": "2026-01-05T10:00:00+00:00", "text": "x", "label": "a"}
    contents = {
        "recipe.yaml": "seed: 0\nepochs: 3\nlearning_rate: 3.0e-5\n",
        "data.json": json.dumps({"train": part, "dev": part}),
        "scores.json": json.dumps(score),
        "metrics.jsonl": json.dumps({"step": 1} | score) + "\n" + json.dumps({"step": 2} | score),
        "model/config.json": json.dumps({"keras_bert_impl": {"model_class": "TextClassifier"}}),
        "predictions.tsv": "index\tlabel\ta\tb\ttrue label\n0\ta\t0.5\t0.5\tb\n1\tb\t0.1\t0.9\tb\n",
        "vectors.meta": json.dumps({"fingerprint": "0", "model": "m", "parts": {"a.txt": "0"}}),
        "labels.jsonl": f"{json.dumps(line)}\n" * 2,
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)

    def read(folder):
        run = object.__new__(RunDirectory)  # without starting a run
        run.path, run.data = folder, folder / "data.json"
        run._check_same_data({"train": part, "dev": part})
        cards.run_sections(folder)
        plots._read(folder / "metrics.jsonl")
        runs_of(folder)
        read_predictions_table(folder / "predictions.tsv")
        read_column(folder / "predictions.tsv", "label")
        list(read_metrics(folder / "metrics.jsonl", 10))
        by_week(folder / "labels.jsonl")
        read_source(folder / "vectors.npy").mapping("parts")
        if problems := read_run(folder).problems:
            raise InputError(f"{folder}/{problems[0]}")

    return list(contents), read

"""The gRPC API of TensorFlow Serving: `PredictionService` and `ModelService`.

Source: `apis/prediction_service.proto` and `apis/model_service.proto` of TensorFlow Serving.
"""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_bert_impl.serving.server.cache import Submit
from keras_bert_impl.serving.server.model import Limits, Model
from keras_bert_impl.serving.server.versions import Versions
from keras_bert_impl.serving.server.wire import ApiError, Arrays, Input, check_rows, check_shape

# Arguments: method, code and seconds of a finished request.
Count = Callable[[str, str, float], None]


def start(
    address: str, versions: Versions, submit: Submit, limits: Limits, count: Count
) -> tuple[grpc.Server, int]:
    # Each running request blocks a thread. This number of threads can fill several batches.
    server = grpc.server(
        ThreadPoolExecutor(2 * limits.max_batch, "grpc"),
        interceptors=[_ParsesRequests(count)],
        maximum_concurrent_rpcs=limits.max_waiting,
        options=[
            ("grpc.max_receive_message_length", limits.max_bytes),
            ("grpc.so_reuseport", 0),  # raises an error if the port is in use
            ("grpc.max_connection_idle_ms", 1000 * int(limits.client_seconds)),
        ],
    )
    service = _Service(versions, submit, limits, count)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(service, server)
    port = server.add_insecure_port(address)
    server.start()
    return server, port


class _ParsesRequests(grpc.ServerInterceptor):
    """Interceptor that parses requests.

    If grpcio parsed the requests, each invalid request would leak about 19 KB of memory.
    """

    def __init__(self, count: Count) -> None:
        self._count = count

    def intercept_service(self, continuation: Callable, handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        if handler is None:  # unknown method
            return None

        def respond(data: bytes, context: grpc.ServicerContext) -> Message:
            try:
                request = handler.request_deserializer(data)
            except DecodeError:
                name = handler_call_details.method.rpartition("/")[2]
                self._count(f"grpc {name}", "INVALID_ARGUMENT", 0.0)
                context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT, f"The message is not a request of {name}."
                )
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            respond, response_serializer=handler.response_serializer
        )


class _Service:
    """Implements the methods of `PredictionService` and `ModelService`."""

    def __init__(self, versions, submit, limits, count):
        self._versions = versions
        self._submit = submit
        self._limits = limits
        for name in (
            *("Predict", "Classify", "Regress", "MultiInference", "GetModelMetadata"),
            *("GetModelStatus", "HandleReloadConfigRequest"),
        ):
            answer = getattr(self, f"_{_convert_to_snake_case(name)}", _refuse_method)
            setattr(self, name, _wrap_method(name, answer, count))

    def _predict(self, request, context):
        spec = request.model_spec
        model = self._find_model(spec)
        name = spec.signature_name or "serving_default"
        signature = model.signature(name)
        arrays = read_tensors(request.inputs, signature.inputs, self._limits)
        seconds = min(self._limits.seconds, context.time_remaining() or math.inf)
        future = self._submit(signature, arrays, time.monotonic() + seconds)
        context.add_callback(future.cancel)  # the client has disconnected
        try:
            outputs = future.result(seconds)
        except FutureTimeoutError:
            raise ApiError("The model took too long.", "DEADLINE_EXCEEDED") from None
        except CancelledError:
            raise ApiError("The client has disconnected.", "UNAVAILABLE") from None
        response = predict_pb2.PredictResponse()
        _describe(response.model_spec, self._versions.name, model)
        response.model_spec.signature_name = name
        for key in request.output_filter or outputs:
            if key not in outputs:
                raise ApiError(f"There is no output {key!r}. The outputs are {', '.join(outputs)}.")
            response.outputs[key].CopyFrom(tf.make_tensor_proto(outputs[key]))
        return response

    def _get_model_metadata(self, request, context):
        if list(request.metadata_field) != ["signature_def"]:
            raise ApiError("metadata_field must be 'signature_def'.")
        model = self._find_model(request.model_spec)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        _describe(response.model_spec, self._versions.name, model)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name in model.signatures:
            signatures.signature_def[name].CopyFrom(model.definitions[name])
        response.metadata["signature_def"].Pack(signatures)
        return response

    def _get_model_status(self, request, context):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else None
        response = get_model_status_pb2.GetModelStatusResponse()
        for state in self._versions.status(spec.name, version):
            added = response.model_version_status.add(
                version=int(state["version"]), state=state["state"]
            )
            code = grpc.StatusCode[state["status"]["error_code"]].value[0]
            added.status.error_code = code
            added.status.error_message = state["status"]["error_message"]
        return response

    def _find_model(self, spec):
        if spec.WhichOneof("version_choice") == "version_label":
            raise ApiError(f"Unrecognized servable version label: {spec.version_label}")
        version = spec.version.value if spec.HasField("version") else None
        return self._versions.find(spec.name, version)


def _convert_to_snake_case(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")


def _refuse_method(request, context):
    raise ApiError("This method is not supported. Use Predict.", "UNIMPLEMENTED")


def _wrap_method(name: str, answer: Callable[[Any, Any], Message], count: Count) -> Callable:
    """Wraps a method of the service, to convert an `ApiError` to a gRPC status code."""

    def respond(request: Message, context: grpc.ServicerContext) -> Message:
        begun, code = time.monotonic(), "OK"
        try:
            return answer(request, context)
        except ApiError as error:
            code = error.code
            context.abort(grpc.StatusCode[code], str(error))
        except Exception as error:
            code = "INTERNAL"
            context.abort(grpc.StatusCode.INTERNAL, f"The server failed: {type(error).__name__}.")
        finally:
            count(f"grpc {name}", code, time.monotonic() - begun)

    return respond


def _describe(spec, name: str, model: Model) -> None:
    spec.name = name
    spec.version.value = model.version


def read_tensors(tensors: Mapping[str, Any], inputs: Mapping[str, Input], limits: Limits) -> Arrays:
    """Converts the tensors of a `PredictRequest` to the inputs of its signature."""
    if tensors.keys() != inputs.keys():
        raise ApiError(
            f"The signature has the inputs {', '.join(sorted(inputs))}. "
            f"Received: {', '.join(sorted(tensors)) or 'none'}"
        )
    return {name: _read_array(name, tensors[name], kind, limits) for name, kind in inputs.items()}


def _read_array(name: str, tensor: Any, kind: Input, limits: Limits) -> np.ndarray:
    dtype = tf.as_dtype("string" if kind.dtype.kind == "O" else kind.dtype)
    if tensor.dtype != dtype.as_datatype_enum:
        raise ApiError(f"Input {name!r} must be {dtype.name}.")
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    check_shape(name, [-1] if tensor.tensor_shape.unknown_rank else shape, kind)
    check_rows(name, shape[0] if shape else 1, limits.max_rows)
    if math.prod(shape) > limits.max_bytes:  # A small message may contain one value to repeat.
        raise ApiError(f"Input {name!r} has more than {limits.max_bytes} values.")
    try:
        return tf.make_ndarray(tensor)
    except (TypeError, ValueError) as error:
        raise ApiError(
            f"The number of values of input {name!r} does not match its shape."
        ) from error

"""What the program in a SavedModel says of the model in it; it is read, and never run."""

from collections import Counter

from keras_bert_impl.errors import InputError


def program_settings(path):
    """Settings that no shape of a tensor shows.

    Args:
        path: `Path` of a `saved_model.pb`.

    Returns:
        dict with `hidden_act` and `num_hidden_layers`, as in a Hugging Face configuration.

    Raises:
        InputError: the file is damaged, or has no attention in it.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel()
    try:
        saved.ParseFromString(path.read_bytes())
    except (OSError, DecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    counts = [
        Counter(node.op for node in function.node_def)
        for graph in saved.meta_graphs
        for function in graph.graph_def.library.function
    ]
    # Functions call each other; the largest one has all layers in it, each with one softmax.
    num_layers = max((count["Softmax"] for count in counts), default=0)
    if not num_layers:
        raise InputError(f"{path} has no function with an encoder in it.")
    operations = set().union(*counts)
    if operations & {"Erf", "Erfc"}:
        activation = "gelu"
    else:
        activation = "relu" if "Relu" in operations else "gelu_new"
    return {"hidden_act": activation, "num_hidden_layers": num_layers}

"""The operations that a SavedModel may contain.

A SavedModel is a program: TensorFlow has operations that read and write any file, run Python code or
open connections. Therefore, a SavedModel is loaded only if its graph consists of operations that
exports of this package use.
"""

from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.reading import check_links

GRAPH = "saved_model.pb"
OPERATIONS = frozenset(
    """
    Abs AddV2 All Any ArgMax AsString Assert AssignVariableOp BatchMatMulV2 BatchMatMulV3
    BiasAdd Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastTo Case Cast ConcatV2 Const Cos Cumprod
    Cumsum DecodeRaw DenseBincount DisableCopyOnRead EnsureShape Equal Erf Exp ExpandDims
    FastWordpieceTokenizeWithOffsets Fill FloorDiv FloorMod GatherNd GatherV2 Greater
    GreaterEqual Identity IdentityN If InvertPermutation IsFinite LeftShift Less LessEqual Log
    LogicalAnd LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean Min Minimum Mul Neg NoOp
    NotEqual OneHot OnesLike Pack Pad PadV2 PartitionedCall Placeholder Prod RaggedGather
    RaggedRange RaggedTensorToTensor Range ReadVariableOp RealDiv ReduceJoin Relu Reshape
    ReverseV2 RightShift Round Rsqrt ScatterNd SegmentMax SegmentMean SegmentMin SegmentSum
    Select SelectV2 SerializeTensor Shape ShardedFilename Sigmoid Sin Size Softmax Split Square
    SquaredDifference Squeeze StatefulPartitionedCall StatelessIf StatelessWhile
    StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StringJoin StringLength
    StringLower Sub Substr Sum Tanh TensorListConcatV2 TensorListFromTensor TensorListGetItem
    TensorListReserve TensorListSetItem TensorListStack TensorScatterUpdate Tile TopKV2
    Transpose UnicodeDecode UnicodeEncode UnicodeTranscode Unique Unpack UnsortedSegmentMax
    UnsortedSegmentMin UnsortedSegmentSum UpperBound VarHandleOp Where While ZerosLike
    """.split()
)
# `tf.saved_model.save` puts these operations into one function that saves the variables and one that
# restores them. Only TensorFlow calls these functions, with the path of the folder `variables`.
# Called by the model, they could read and write any file.
_OF_SAVER = frozenset(["MergeV2Checkpoints", "RestoreV2", "SaveV2"])


def read_graph(directory: Path, trust_graph: bool = False, root: Path | None = None) -> Any:
    """Reads and checks `saved_model.pb` without loading the graph.

    Args:
        directory: the SavedModel.
        trust_graph: whether to allow all operations, for SavedModels of other programs.
        root: the folder that the user named, out of which no link may lead. Default: `directory`.

    Returns:
        The parsed file, a `SavedModel` protocol buffer.

    Raises:
        InputError: the file is missing or damaged, a link leads out of the folder, or the graph
            contains an operation that exports of this package do not use.

    Example:
        from keras_bert_impl.serving import export_version
        from keras_bert_impl.serving.graph_operations import read_graph
        version = export_version(classifier.signatures(), "models/reviews")
        list(read_graph(version).meta_graphs[0].signature_def)
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    path = directory / GRAPH
    check_links(directory, root or directory)
    saved = SavedModel()
    try:
        saved.ParseFromString(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except DecodeError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not saved.meta_graphs:
        raise InputError(f"{path} is damaged: it contains no graph.")
    if not trust_graph:
        _check(saved, path)
    return saved


def _check(saved, path):
    meta_graph = saved.meta_graphs[0]
    if len(saved.meta_graphs) > 1 or not meta_graph.HasField("object_graph_def"):
        forbidden = {"graphs in the format of TensorFlow 1"}  # Loading them runs their operations.
    else:
        savers, graph = _find_savers(meta_graph), meta_graph.graph_def
        forbidden = {node.op for node in graph.node} - OPERATIONS
        for function in graph.library.function:
            allowed = _OF_SAVER if function.signature.name in savers else ()
            forbidden |= {node.op for node in function.node_def} - OPERATIONS.union(allowed)
    if forbidden:
        raise InputError(
            f"{path} contains {listed(sorted(forbidden))}, which exports of keras_bert_impl do not "
            "use. A graph can read and write files. If you trust its author, pass --trust-graph "
            "(in Python, trust_graph=True)."
        )


def _find_savers(meta_graph):
    """Returns the functions that save and restore variables, without those that others call."""
    saver, content = meta_graph.saver_def, meta_graph.SerializeToString()
    nodes = {saver.save_tensor_name.partition(":")[0], saver.restore_op_name}
    names = {node.attr["f"].func.name for node in meta_graph.graph_def.node if node.name in nodes}
    # The name is in the definition and in the call by the saver; a third place is another call.
    return {name for name in names if name and content.count(name.encode()) == 2}

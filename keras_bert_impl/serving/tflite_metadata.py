"""Adds metadata for MediaPipe to LiteRT files: names of the inputs, vocabulary and labels.

The vocabulary and the labels are in a ZIP archive at the end of the file.

Source: `metadata_schema.fbs` of TensorFlow Lite. Slots are the field numbers of this schema.
"""

import io
import zipfile

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

VOCABULARY_FILE, LABELS_FILE = "vocab.txt", "labels.txt"
_BUFFER, _IDENTIFIER = "TFLITE_METADATA", b"M001"
_AXIS_LABELS, _VOCABULARY = 2, 5  # AssociatedFileType
_BERT_TOKENIZER = 4  # ProcessUnitOptions


def with_metadata(
    content: bytes, roles: dict[str, str], vocabulary: list[str], labels: list[str] | None
) -> bytes:
    """Adds metadata and files to a LiteRT model with one output.

    Args:
        content: the model.
        roles: dict of input name -> MediaPipe's name: `ids`, `mask` or `segment_ids`.
        vocabulary: tokens of a WordPiece tokenizer.
        labels: class names of the scores in the output; None if the output is a vector.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    (signature,), (graph,) = model.signatureDefs, model.subgraphs
    tensors = {tensor.tensorIndex: tensor.name.decode() for tensor in signature.inputs}
    inputs = [roles[tensors[index]] for index in graph.inputs]
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = _build_metadata(inputs, labels is not None)
    entry.name, entry.buffer = _BUFFER, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or ()), entry]
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    # ZIP readers search for the archive at the end of the file.
    return bytes(builder.Output()) + _pack_files(vocabulary, labels)


def _pack_files(vocabulary, labels):
    files = {VOCABULARY_FILE: vocabulary, LABELS_FILE: labels}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, lines in files.items():
            if lines is not None:
                archive.writestr(zipfile.ZipInfo(name), "\n".join(lines))
    return content.getvalue()


def _build_metadata(inputs, has_labels):
    """Returns a serialized `ModelMetadata`. `inputs` are MediaPipe's names of the inputs."""
    builder = flatbuffers.Builder(1024)
    text = builder.CreateString

    def write_file_entry(name, kind):
        return _write_table(builder, {0: text(name)}, {2: kind})

    vocabulary = _write_vector(builder, [write_file_entry(VOCABULARY_FILE, _VOCABULARY)])
    options = _write_table(builder, {0: vocabulary})
    tokenizer = _write_table(builder, {1: options}, {0: _BERT_TOKENIZER})
    tensors = _write_vector(builder, [_write_table(builder, {0: text(name)}) for name in inputs])
    files = (
        {6: _write_vector(builder, [write_file_entry(LABELS_FILE, _AXIS_LABELS)])}
        if has_labels
        else {}
    )
    output = _write_table(builder, {0: text("output"), **files})
    parts = {
        2: tensors,
        3: _write_vector(builder, [output]),
        5: _write_vector(builder, [tokenizer]),
    }
    graphs = _write_vector(builder, [_write_table(builder, parts)])
    root = _write_table(builder, {0: text("model"), 3: graphs, 7: text("1.0.0")})
    builder.Finish(root, file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _write_table(builder, offsets, numbers=None):
    """Writes a FlatBuffer table. `offsets` and `numbers` are keyed by slot."""
    builder.StartObject(8)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for slot, number in (numbers or {}).items():
        builder.PrependUint8Slot(slot, number, 0)
    return builder.EndObject()


def _write_vector(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()

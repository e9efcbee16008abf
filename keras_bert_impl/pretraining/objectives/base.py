"""The base class of pre-training objectives."""

from keras import ops

from keras_bert_impl.interop import head_tensors
from keras_bert_impl.training.cross_entropy import cross_entropy

ENCODER_FEATURES = ("token_ids", "segment_ids", "position_ids", "example_ids")


class Objective:
    """A pre-training task: a head on the encoder and its loss.

    The loss of an output is the mean over its labeled positions in the global batch; `Pretrainer`
    sums these, each times its factor. An objective with a single output that has the objective's
    name, and whose labels and weights are in the dataset under that name, overrides only `connect`.

    Attributes:
        name: str. The key in `OBJECTIVES`.
        head: str. Name of its head in `interop`, which determines the model class for
            `transformers`; None if `tensors` names the variables.
        features: tuple of str. The int32 inputs that it reads besides the encoder's.
        uses_pooler: bool. Whether it trains the encoder's pooler.
        details: tuple of str. Further encoder outputs that it reads; see `Encoder.with_outputs`.
        without_accuracy: tuple of str. Outputs for which accuracy is undefined.

    Args:
        weight: float. Factor of its loss in the total.
    """

    name = None
    head = None
    features = ()
    uses_pooler = False
    details = ()
    without_accuracy = ()

    def __init__(self, weight=1.0):
        self.weight = weight

    @property
    def output_names(self):
        """tuple of str. The outputs of `connect` that have labels."""
        return tuple(self.factors())

    def factors(self):
        """Returns a dict of output to its factor (float) in the total loss."""
        return {self.name: self.weight}

    def prepare(self, encoder, inputs):
        """Transforms the dataset's inputs before they reach the encoder.

        Args:
            encoder: `Encoder`.
            inputs: dict of symbolic int32 tensors: the encoder's inputs and `features`.

        Returns:
            (inputs, outputs): the inputs, some of them replaced; and a dict of intermediate results
            to add to the outputs of the pre-trainer.
        """
        return inputs, {}

    def connect(self, encoder, encoded, inputs):
        """Creates the head and applies it.

        Args:
            encoder: `Encoder`.
            encoded: dict. Outputs of the encoder, including `details`.
            inputs: dict of symbolic int32 tensors: the inputs of the encoder and `features`.

        Returns:
            dict of output to float32 logits.
        """
        raise NotImplementedError

    def weights(self, features, weights):
        """Returns the weight of each position of an output, known before the forward pass.

        Args:
            features, weights: dicts from the dataset.

        Returns:
            dict of output to float32 tensor, 0 at positions without a label.
        """
        return {name: weights[name] for name in self.output_names}

    def labels(self, features, labels, outputs):
        """Returns the labels of each output.

        Args:
            features, labels: dicts from the dataset.
            outputs: dict. All outputs of the pre-trainer.

        Returns:
            dict of output to a tensor with the shape of its weights.
        """
        return {name: labels[name] for name in self.output_names}

    def losses(self, output, labels, logits):
        """Computes the loss at every position of an output; by default softmax cross-entropy."""
        return cross_entropy(labels, logits)

    def hits(self, output, labels, logits):
        """Returns 1.0 where the prediction equals the label; the mean is the accuracy."""
        # Same as an argmax unless logits tie. On CPUs an argmax over the vocabulary takes longer
        # than the loss.
        own = ops.take_along_axis(logits, ops.cast(labels, "int32")[..., None], axis=-1)[..., 0]
        return ops.cast(own >= ops.max(logits, axis=-1), "float32")

    def flops(self, config, length, predictions):
        """Returns the floating-point operations of its part of the forward pass, per real token.

        Args:
            config: `EncoderConfig`.
            length: int. Tokens of a row.
            predictions: float. Masked tokens per token.

        Returns:
            float, counted as in `training.runs.flops`; 0 if negligible.
        """
        return 0.0

    def tensors(self, config):
        """Maps the variables of its head to tensors of a model directory.

        Args:
            config: `EncoderConfig`.

        Returns:
            list of `interop` tensor names.
        """
        return head_tensors(config, self.head)

    def of_directory(self, path, **overrides):
        """Returns the objective as configured in a model directory `path`, a `Path`.

        `overrides` are fields of the encoder's `EncoderConfig` that differ from those in its files.
        """
        return self

    def load(self, pretrainer, path):
        """Loads the objective's separate files, if any, from a model directory `path`."""

    def save(self, pretrainer, directory):
        """Writes the objective's separate files, if any, to a new model directory."""

    def get_config(self):
        """Returns a dict of the arguments, for `.keras` files."""
        return {"weight": self.weight}

    @classmethod
    def from_config(cls, config):
        """Creates an objective from the result of `get_config`."""
        return cls(**config)

"""What every objective of pre-training does."""

from keras import ops

from keras_bert_impl.interop import head_tensors
from keras_bert_impl.training.cross_entropy import cross_entropy

ENCODER_FEATURES = ("token_ids", "segment_ids", "position_ids", "example_ids")


class Objective:
    """One task of pre-training: a head on the encoder, and the loss of what it says.

    The loss of an output is the mean over its labelled places in the global batch; `Pretrainer`
    adds these up, each times its factor. An objective of one output, named as the objective, whose
    labels and weights the data set has under that name, overrides `connect` alone.

    Attributes:
        name: str. The key in `OBJECTIVES`.
        head: str. What `interop` calls its head, by which `transformers` is told what class the
            model is of; None for one that `tensors` names.
        features: tuple of str. The int32 inputs that it reads besides the encoder's.
        uses_pooler: bool. Whether the encoder's pooler learns from it.
        details: tuple of str. What else than its outputs it reads of the encoder; as of
            `Encoder.with_outputs`.
        without_accuracy: tuple of str. Outputs that nothing can be right or wrong about.

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
        """tuple of str. What `connect` returns that has labels."""
        return tuple(self.factors())

    def factors(self):
        """dict of output to float: its factor in the total loss."""
        return {self.name: self.weight}

    def prepare(self, encoder, inputs):
        """What the encoder is given, where that is not what the data set gives.

        Args:
            encoder: `Encoder`.
            inputs: dict of symbolic int32 tensors: the encoder's inputs and `features`.

        Returns:
            (inputs, outputs): the inputs, some of them others; dict of what was found on the way,
            for the outputs of the pre-trainer.
        """
        return inputs, {}

    def connect(self, encoder, encoded, inputs):
        """Makes the head and applies it.

        Args:
            encoder: `Encoder`.
            encoded: dict, what the encoder returned, with `details`.
            inputs: dict of symbolic int32 tensors: what the encoder was given, and `features`.

        Returns:
            dict of float32 logits by output.
        """
        raise NotImplementedError

    def weights(self, features, weights):
        """What each place of an output counts, known before the forward pass.

        Args:
            features, weights: dicts, as the data set gives them.

        Returns:
            dict of output to float32 tensor, 0 at places without a label.
        """
        return {name: weights[name] for name in self.output_names}

    def labels(self, features, labels, outputs):
        """The labels of each output.

        Args:
            features, labels: dicts, as the data set gives them.
            outputs: dict, all that the pre-trainer returned.

        Returns:
            dict of output to tensor of the shape of its weights.
        """
        return {name: labels[name] for name in self.output_names}

    def losses(self, output, labels, logits):
        """The loss of every place of an output: here the cross-entropy of a softmax."""
        return cross_entropy(labels, logits)

    def hits(self, output, labels, logits):
        """1.0 where what the logits say is the label; its mean is the accuracy."""
        # Unless logits tie, what an argmax would say; on CPUs an argmax over a vocabulary takes
        # longer than the loss.
        own = ops.take_along_axis(logits, ops.cast(labels, "int32")[..., None], axis=-1)[..., 0]
        return ops.cast(own >= ops.max(logits, axis=-1), "float32")

    def flops(self, config, length, predictions):
        """Floating-point operations of its own part of the forward pass, for each real token.

        Args:
            config: `EncoderConfig`.
            length: int. Tokens of a row.
            predictions: float. Masked tokens for each token.

        Returns:
            float, as `training.flops` counts; 0 where that is next to nothing.
        """
        return 0.0

    def tensors(self, config):
        """Where the variables of its head stand in a model directory.

        Args:
            config: `EncoderConfig`.

        Returns:
            list of `interop` tensor names.
        """
        return head_tensors(config, self.head)

    def of_directory(self, path, **overrides):
        """The objective as a model directory, `Path`, has it, where that has more to say of it.

        `overrides` are fields of the encoder's `EncoderConfig` that are others than in its files.
        """
        return self

    def load(self, pretrainer, path):
        """Reads what of the objective is in files of its own, in a model directory `path`."""

    def save(self, pretrainer, directory):
        """Writes what of the objective has files of its own into a new model directory."""

    def get_config(self):
        """dict of the arguments, for `.keras` files."""
        return {"weight": self.weight}

    @classmethod
    def from_config(cls, config):
        """An objective of what `get_config` returned."""
        return cls(**config)

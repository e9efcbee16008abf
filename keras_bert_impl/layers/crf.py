"""A linear-chain conditional random field (CRF) for sequence labeling.

Shape legend: length = positions. Positions outside the mask are skipped.
"""

from typing import Any

import keras
from keras import ops

Tensor = Any  # a tensor of any Keras backend
_NEVER = -1e9  # log probability of an excluded label; it is finite, so that gradients are finite


@keras.saving.register_keras_serializable("keras_bert_impl")
class CRF(keras.layers.Layer):
    """Linear-chain CRF, which scores label sequences by emissions and transitions.

    The score of labels y is `start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t, y_t+1] +
    end[y_n]`. The probability of a label sequence is the softmax of its score over all sequences.
    Computed in float32.

    Call arguments:
        emissions: `[batch, length, num_labels]`, the scores of all labels at each position.
        mask: `[batch, length]`, 1 at the positions of the sequence, 0 at positions to skip.

    Returns:
        float32 `[batch, length, num_labels]`: the marginal probability of each label at each
        position; 0 outside the mask.

    Source: Lafferty et al. 2001, "Conditional Random Fields".

    Example:
        from keras_bert_impl.layers import CRF
        crf = CRF(num_labels=3)
        crf(emissions, mask)  # probabilities
        crf.decode(emissions, mask)  # the likeliest sequence
        loss = -crf.log_likelihood(emissions, labels, mask)
    """

    def __init__(self, num_labels: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.num_labels = num_labels

    def build(self, emissions_shape: tuple, mask_shape: tuple | None = None) -> None:
        def add_weight(name, *shape):
            return self.add_weight(shape, "zeros", dtype="float32", autocast=False, name=name)

        self.transitions = add_weight("transitions", self.num_labels, self.num_labels)
        self.start = add_weight("start", self.num_labels)
        self.end = add_weight("end", self.num_labels)
        self.built = True

    def call(self, emissions: Tensor, mask: Tensor) -> Tensor:
        emissions, mask = ops.cast(emissions, "float32"), ops.cast(mask, "bool")
        marginals, *_ = self._count_expected(emissions, mask)
        return marginals

    def log_likelihood(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Returns the log probability of label sequences.

        The gradient is computed as observed minus expected counts, without differentiating a loop.

        Args:
            emissions, mask: see the call arguments of the layer.
            labels: int `[batch, length]`. Values outside the mask are ignored.

        Returns:
            float32 `[batch]`; 0 if the mask is empty.
        """
        emissions, mask = ops.cast(emissions, "float32"), ops.cast(mask, "bool")
        is_label = ops.one_hot(labels, self.num_labels, dtype="bool")  # [batch, length, num_labels]
        # In the first half of the batch, all sequences are allowed; in the second half, only the
        # given ones.
        both = ops.concatenate([emissions, ops.where(is_label, emissions, _NEVER)])
        *counts, total = self._count_expected(
            ops.stop_gradient(both), ops.concatenate([mask, mask])
        )
        scores = (emissions, self.transitions, self.start, self.end)
        score = 0.0  # [batch]; linear in the emissions and weights
        for count, weight in zip(counts, scores):
            expected, observed = ops.split(ops.stop_gradient(count), 2)
            axes = tuple(range(1, len(count.shape)))
            score += ops.sum((observed - expected) * weight, axis=axes)
        expected, observed = ops.split(ops.stop_gradient(total), 2)
        likelihood = observed - expected + score - ops.stop_gradient(score)
        return ops.where(ops.any(mask, axis=-1), likelihood, 0.0)

    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Returns the most likely label sequence (Viterbi decoding).

        Args:
            emissions, mask: see the call arguments of the layer.

        Returns:
            int32 `[batch, length]`; 0 outside the mask.
        """
        emissions, mask = ops.cast(emissions, "float32"), ops.cast(mask, "bool")
        stay = ops.arange(self.num_labels, dtype="int32")[None]  # [1, num_labels]
        transitions, start = map(ops.convert_to_tensor, (self.transitions, self.start))

        def step(state, position):
            score, _, begun = state
            emission, is_inside = _split_position(position)
            steps = score[:, :, None] + transitions  # [batch, from, to]
            on = is_inside & begun
            best = ops.where(on, ops.cast(ops.argmax(steps, axis=1), "int32"), stay)
            reached = _normalize(ops.where(begun, ops.max(steps, axis=1), start) + emission)[0]
            state = ops.where(is_inside, reached, score), best, begun | is_inside
            return state, state

        zeros, begun = self._make_initial_state(emissions)
        state = zeros, ops.zeros_like(zeros, dtype="int32"), begun
        (score, *_), (_, came_from, _) = ops.scan(step, state, _join_by_position(emissions, mask))

        def back(label, origins):
            before = ops.take_along_axis(origins, label[:, None], axis=1)[:, 0]
            return before, label

        last = ops.cast(ops.argmax(score + self.end, axis=-1), "int32")
        _, labels = ops.scan(back, last, came_from, reverse=True)
        return ops.where(mask, ops.transpose(labels), 0)

    def compute_output_shape(
        self, emissions_shape: tuple, mask_shape: tuple | None = None
    ) -> tuple:
        return emissions_shape

    def compute_output_spec(self, emissions: Tensor, mask: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(emissions.shape, dtype="float32")

    def get_config(self) -> dict:
        return {**super().get_config(), "num_labels": self.num_labels}

    def _count_expected(self, emissions, mask):
        """Computes the expected counts of all weights, and the log partition function.

        Returns:
            float32: emissions `[batch, length, num_labels]`, transitions `[batch, num_labels,
                num_labels]`, start and end `[batch, num_labels]`, log partition function `[batch]`.
        """
        transitions, start, end = (
            ops.stop_gradient(ops.convert_to_tensor(weight))
            for weight in (self.transitions, self.start, self.end)
        )
        before, had_begun, last, shift = self._run_forward(emissions, mask, transitions, start)
        after = emissions + self._run_backward(emissions, mask, transitions, end)
        total = ops.logsumexp(last + end, axis=-1) + shift
        pairs = before[..., None] + transitions + after[:, :, None]  # [batch, length, from, to]
        pairs = ops.exp(pairs - ops.logsumexp(pairs, axis=(2, 3), keepdims=True))
        pairs = ops.where((mask & had_begun)[..., None, None], pairs, 0.0)
        begins = ops.where((mask & ~had_begun)[..., None], ops.softmax(start + after), 0.0)
        ends = ops.softmax(last + end) * ops.cast(ops.any(mask, axis=1), "float32")[:, None]
        labels = begins + ops.sum(pairs, axis=2)
        return labels, ops.sum(pairs, axis=1), ops.sum(begins, axis=1), ends, total

    def _run_forward(self, emissions, mask, transitions, start):
        """Runs the forward algorithm. Each step subtracts the maximum from the log scores.

        Returns:
            before: `[batch, length, num_labels]`, log scores before each position, by previous
                label.
            has_previous: bool `[batch, length]`, whether there is a previous label.
            last: `[batch, num_labels]`, log scores of the whole sequence, by last label.
            shift: `[batch]`, sum of the subtracted maxima.
        """

        def step(state, position):
            score, begun, shift = state
            emission, is_inside = _split_position(position)
            steps = ops.logsumexp(score[:, :, None] + transitions, axis=1)
            reached, maximum = _normalize(ops.where(begun, steps, start) + emission)
            shift = ops.where(is_inside, shift + maximum, shift)
            return (ops.where(is_inside, reached, score), begun | is_inside, shift), state

        zeros, begun = self._make_initial_state(emissions)
        state = zeros, begun, zeros[:, :1]
        (last, _, shift), states = ops.scan(step, state, _join_by_position(emissions, mask))
        scores, begun = ops.transpose(states[0], (1, 0, 2)), ops.transpose(states[1][..., 0])
        return scores, begun, last, shift[:, 0]

    def _run_backward(self, emissions, mask, transitions, end):
        """Runs the backward algorithm; returns shifted log scores after each position, by label."""

        def step(score, position):
            emission, is_inside = _split_position(position)
            after = (score + emission)[:, None, :]  # [batch, 1, to]
            before = ops.logsumexp(transitions + after, axis=2)
            return ops.where(is_inside, _normalize(before)[0], score), score

        end = ops.zeros_like(emissions[:, 0]) + end
        _, scores = ops.scan(step, end, _join_by_position(emissions, mask), reverse=True)
        return ops.transpose(scores, (1, 0, 2))

    def _make_initial_state(self, emissions):
        """Returns the scores and `has_previous` before the first position: zeros and False."""
        zeros = ops.zeros_like(emissions[:, 0])  # [batch, num_labels]
        return zeros, ops.zeros_like(zeros[:, :1], dtype="bool")


def _join_by_position(emissions, mask):
    """Returns the emissions and the mask as float32 `[length, batch, num_labels + 1]`."""
    both = ops.concatenate([emissions, ops.cast(mask, "float32")[..., None]], axis=-1)
    return ops.transpose(both, (1, 0, 2))


def _split_position(position):
    """Returns the emissions `[batch, num_labels]` and bool mask `[batch, 1]` of a position."""
    return position[:, :-1], position[:, -1:] > 0


def _normalize(scores):
    """Subtracts the maximum of each row; returns (differences, maxima `[batch, 1]`)."""
    maximum = ops.max(scores, axis=-1, keepdims=True)
    return scores - maximum, maximum

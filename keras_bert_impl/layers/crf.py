"""A linear-chain conditional random field: labels that know their neighbours.

Shape legend: length = places of a row, of which those outside of the mask are passed over.
"""

import keras
from keras import ops

_NEVER = -1e9  # a log probability; finite, so that gradients are


@keras.saving.register_keras_serializable("keras_bert_impl")
class CRF(keras.layers.Layer):
    """Scores sequences of labels by each label's own score and by each two that follow each other.

    The score of labels y is `start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t, y_t+1] +
    end[y_n]`, and their probability the softmax of it over all sequences. Computed in float32.

    Args:
        num_labels: int.

    Call arguments:
        emissions: `[batch, length, num_labels]`, scores of the labels at each place.
        mask: `[batch, length]`, 1 at the places of the sequence, wherever they stand in the row;
            0 for others, which are passed over.

    Returns:
        float32 `[batch, length, num_labels]`: the probability of each label at each place, over
        all sequences; 0 outside of the mask.

    Source: Lafferty et al. 2001, "Conditional Random Fields".

    Example:
        crf = CRF(num_labels=3)
        crf(emissions, mask)  # probabilities
        crf.decode(emissions, mask)  # the likeliest sequence
        loss = -crf.log_likelihood(emissions, labels, mask)
    """

    def __init__(self, num_labels, **kwargs):
        super().__init__(**kwargs)
        self.num_labels = num_labels

    def build(self, emissions_shape, mask_shape=None):
        shapes = {
            "transitions": (self.num_labels, self.num_labels),
            "start": (self.num_labels,),
            "end": (self.num_labels,),
        }
        for name, shape in shapes.items():
            weight = self.add_weight(shape=shape, initializer="zeros", autocast=False, name=name)
            setattr(self, name, weight)
        self.built = True

    def order_classes(self, order):
        """Makes label `order[i]` label i.

        Args:
            order: list of int, every label once.
        """
        self.transitions.assign(ops.take(ops.take(self.transitions, order, axis=0), order, axis=1))
        for scores in (self.start, self.end):
            scores.assign(ops.take(scores, order, axis=0))

    def call(self, emissions, mask):
        emissions, mask = ops.cast(emissions, "float32"), ops.cast(mask, "bool")
        marginals, *_ = self._expected(emissions, mask)
        return marginals

    def log_likelihood(self, emissions, labels, mask):
        """The logarithm of the probability of labels.

        Its gradient is what was seen less what was expected, so that no loop is run backwards.

        Args:
            emissions, mask: as of the call.
            labels: int `[batch, length]`; outside of the mask any number.

        Returns:
            float32 `[batch]`; 0 for a row without places in the mask.
        """
        emissions, mask = ops.cast(emissions, "float32"), ops.cast(mask, "bool")
        own = ops.one_hot(labels, self.num_labels, dtype="bool")  # [batch, length, num_labels]
        # All sequences and, where every other label is ruled out, the given one.
        both = ops.concatenate([emissions, ops.where(own, emissions, _NEVER)])
        *counts, total = self._expected(ops.stop_gradient(both), ops.concatenate([mask, mask]))
        scores = (emissions, self.transitions, self.start, self.end)
        score = 0.0  # [batch], linear in all weights
        for count, weight in zip(counts, scores):
            every, given = ops.split(ops.stop_gradient(count), 2)
            axes = tuple(range(1, len(count.shape)))
            score += ops.sum((given - every) * weight, axis=axes)
        every, given = ops.split(ops.stop_gradient(total), 2)
        likelihood = given - every + score - ops.stop_gradient(score)
        return ops.where(ops.any(mask, axis=-1), likelihood, 0.0)

    def decode(self, emissions, mask):
        """The likeliest sequence of labels.

        Args:
            emissions, mask: as of the call.

        Returns:
            int32 `[batch, length]`; outside of the mask 0.
        """
        emissions, mask = ops.cast(emissions, "float32"), ops.cast(mask, "bool")
        stay = ops.arange(self.num_labels, dtype="int32")[None]  # [1, num_labels]
        transitions, start = map(ops.convert_to_tensor, (self.transitions, self.start))

        def step(state, place):
            score, _, begun = state
            emission, is_place = _parts(place)
            steps = score[:, :, None] + transitions  # [batch, from, to]
            on = is_place & begun
            best = ops.where(on, ops.cast(ops.argmax(steps, axis=1), "int32"), stay)
            reached = _lowered(ops.where(begun, ops.max(steps, axis=1), start) + emission)[0]
            state = ops.where(is_place, reached, score), best, begun | is_place
            return state, state

        begin = self._begin(emissions)
        state = (begin[0], ops.zeros_like(begin[0], dtype="int32"), begin[1])
        (score, *_), (_, came_from, _) = ops.scan(step, state, _by_place(emissions, mask))

        def back(label, origins):
            before = ops.take_along_axis(origins, label[:, None], axis=1)[:, 0]
            return before, label

        last = ops.cast(ops.argmax(score + self.end, axis=-1), "int32")
        _, labels = ops.scan(back, last, came_from, reverse=True)
        return ops.where(mask, ops.transpose(labels), 0)

    def compute_output_shape(self, emissions_shape, mask_shape=None):
        return emissions_shape

    def compute_output_spec(self, emissions, mask):
        return keras.KerasTensor(emissions.shape, dtype="float32")

    def get_config(self):
        return {**super().get_config(), "num_labels": self.num_labels}

    def _expected(self, emissions, mask):
        """How often each weight is expected to count, and the log of the summed scores.

        Returns:
            float32 tensors: emissions `[batch, length, num_labels]`, transitions
            `[batch, num_labels, num_labels]`, start and end `[batch, num_labels]`, total `[batch]`.
        """
        transitions, start, end = (
            ops.stop_gradient(ops.convert_to_tensor(weight))
            for weight in (self.transitions, self.start, self.end)
        )
        before, had_begun, last, lowered = self._forward(emissions, mask, transitions, start)
        behind = emissions + self._backward(emissions, mask, transitions, end)
        total = ops.logsumexp(last + end, axis=-1) + lowered
        pairs = before[..., None] + transitions + behind[:, :, None]  # [batch, length, from, to]
        pairs = ops.exp(pairs - ops.logsumexp(pairs, axis=(2, 3), keepdims=True))
        pairs = ops.where((mask & had_begun)[..., None, None], pairs, 0.0)
        begins = ops.where((mask & ~had_begun)[..., None], ops.softmax(start + behind), 0.0)
        ends = ops.softmax(last + end) * ops.cast(ops.any(mask, axis=1), "float32")[:, None]
        labels = begins + ops.sum(pairs, axis=2)
        return labels, ops.sum(pairs, axis=1), ops.sum(begins, axis=1), ends, total

    def _forward(self, emissions, mask, transitions, start):
        """Logs of the summed scores of what comes before, each place's lowered so that 0 is most.

        Returns:
            before each place float32 `[batch, length, num_labels]`, by the label before; whether
            there is a label before, bool `[batch, length]`; by the last label
            `[batch, num_labels]`; by how much all of them lowered that, `[batch]`.
        """

        def step(state, place):
            score, begun, lowered = state
            emission, is_place = _parts(place)
            steps = ops.logsumexp(score[:, :, None] + transitions, axis=1)
            reached, most = _lowered(ops.where(begun, steps, start) + emission)
            lowered = ops.where(is_place, lowered + most, lowered)
            return (ops.where(is_place, reached, score), begun | is_place, lowered), state

        zeros, begun = self._begin(emissions)
        state = zeros, begun, zeros[:, :1]
        (last, _, lowered), states = ops.scan(step, state, _by_place(emissions, mask))
        scores, begun = ops.transpose(states[0], (1, 0, 2)), ops.transpose(states[1][..., 0])
        return scores, begun, last, lowered[:, 0]

    def _backward(self, emissions, mask, transitions, end):
        """Logs of the summed scores of what comes behind each place, by its label; lowered."""

        def step(score, place):
            emission, is_place = _parts(place)
            behind = (score + emission)[:, None, :]  # [batch, 1, to]
            before = ops.logsumexp(transitions + behind, axis=2)
            return ops.where(is_place, _lowered(before)[0], score), score

        end = ops.zeros_like(emissions[:, 0]) + end
        _, scores = ops.scan(step, end, _by_place(emissions, mask), reverse=True)
        return ops.transpose(scores, (1, 0, 2))

    def _begin(self, emissions):
        """(scores, whether the sequence has begun) before the first place."""
        zeros = ops.zeros_like(emissions[:, 0])  # [batch, num_labels]
        return zeros, ops.zeros_like(zeros[:, :1], dtype="bool")


def _by_place(emissions, mask):
    """float32 [length, batch, num_labels + 1], the mask behind the emissions.

    One tensor: with two, Keras's loop on TensorFlow needs to know how long they are.
    """
    both = ops.concatenate([emissions, ops.cast(mask, "float32")[..., None]], axis=-1)
    return ops.transpose(both, (1, 0, 2))


def _parts(place):
    """(emissions [batch, num_labels], mask bool [batch, 1]) of a place."""
    return place[:, :-1], place[:, -1:] > 0


def _lowered(scores):
    """(scores [batch, num_labels] less their most, that most [batch, 1]).

    What is added up over a row would grow with its length, and float32 round it to less and less.
    """
    most = ops.max(scores, axis=-1, keepdims=True)
    return scores - most, most

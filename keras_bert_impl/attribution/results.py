"""The result of `attribute`."""

from typing import NamedTuple


class AttributedWord(NamedTuple):
    """A word and its share of the output.

    Attributes:
        text: the word.
        start, end: characters of the word in its segment.
        segment: 0, or 1 for the second text of a pair.
        score: share of the output; positive if the word speaks for the target.
    """

    text: str
    start: int
    end: int
    segment: int
    score: float


class Attribution(NamedTuple):
    """An output of a model, divided among the words of a text.

    Attributes:
        words: the words in the input of the model, in order.
        target: name of the output: the label, `word/label` of a tagger, or the answer.
        method: `"integrated_gradients"` or `"occlusion"`.
        output: the output for the text, a log-odds or, for regression, a value.
        baseline: the output if every word is masked.
        is_cut: whether words are missing because the text is longer than `max_length`.
    """

    words: list[AttributedWord]
    target: str
    method: str
    output: float
    baseline: float
    is_cut: bool

    @property
    def gap(self) -> float:
        """Sum of the scores minus `output - baseline`: the numerical error of the integral."""
        return sum(word.score for word in self.words) - (self.output - self.baseline)

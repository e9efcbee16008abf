"""The result of `attribute`."""

from typing import NamedTuple


class AttributedWord(NamedTuple):
    """A word and its attribution score.

    Attributes:
        text: the word.
        start, end: character offsets of the word in its segment.
        segment: 0, or 1 for the second text of a pair.
        score: contribution to the output; positive if the word increases the output.
    """

    text: str
    start: int
    end: int
    segment: int
    score: float


class Attribution(NamedTuple):
    """The result of `attribute`: an output of a model, and a score for each word of the text.

    Attributes:
        words: the words in the input of the model, in order.
        target: name of the output: the label, `word/label` of a tagger, or the answer.
        method: `"integrated_gradients"` or `"occlusion"`.
        output: the output for the text; see `attribute`.
        baseline: the output for the text with every word masked.
        is_cut: whether the text was truncated to `max_length`.
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

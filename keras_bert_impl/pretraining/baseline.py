"""A baseline of pre-training: the frequencies of the tokens, without their context."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

OBJECTIVES = ("masked_lm", "left_to_right")  # objectives that predict tokens


def unigram_scores(
    train: Iterable, held_out: Iterable, vocabulary_size: int, objective: str = "masked_lm"
) -> dict[str, float]:
    """Scores a baseline that predicts each token by its frequency.

    Args:
        train: batches of `pretraining_dataset`, in which the tokens to predict are counted.
        held_out: batches to score.
        vocabulary_size: number of tokens of the vocabulary.
        objective: name of the objective, one of `OBJECTIVES`.

    Returns:
        `{objective}_loss`, the mean cross-entropy of the frequencies with add-one smoothing, and
        `{objective}_accuracy`, the accuracy of the most frequent token.

    Example:
        from keras_bert_impl.pretraining import pretraining_dataset
        from keras_bert_impl.pretraining.baseline import unigram_scores
        batches = pretraining_dataset("records", batch_size=2).take(2)
        scores = unigram_scores(batches, batches, tokenizer.vocabulary_size)
        scores["masked_lm_loss"]
    """
    counts = np.ones(vocabulary_size)
    for _, labels, weights in train:
        np.add.at(counts, labels[objective].numpy(), weights[objective].numpy())
    log_probabilities = np.log(counts / counts.sum())
    loss = hits = total = 0.0
    for _, labels, weights in held_out:
        token_ids, used = labels[objective].numpy(), weights[objective].numpy()
        loss -= (log_probabilities[token_ids] * used).sum()
        hits += ((token_ids == counts.argmax()) * used).sum()
        total += used.sum()
    if not total:
        return {}
    return {f"{objective}_loss": float(loss / total), f"{objective}_accuracy": float(hits / total)}


def compare_with_unigram(scores: Mapping[str, Any], unigram: Mapping[str, float]) -> list[str]:
    """Returns a sentence that compares the loss of a model with the baseline's, if it has one."""
    for objective in OBJECTIVES:
        name = f"{objective}_loss"
        if name in scores and name in unigram:
            is_better = scores[name] < unigram[name]
            return [
                f"{name} {scores[name]:.3f}, baseline unigram {unigram[name]:.3f}: the model "
                + (
                    "predicts tokens better than their frequencies."
                    if is_better
                    else "does not predict tokens better than their frequencies. Train longer, or "
                    "change the learning rate."
                )
            ]
    return []

"""Heads of an encoder by the names that layouts give them."""

from keras_bert_impl.models import heads


def connected(encoder, name, states, num_labels):
    """Connects a head to an encoder's outputs; returns its logits."""
    states = dict(states)
    if name == "masked_lm":
        return heads.masked_lm_head(encoder)(states["sequence_output"])
    if name in ("next_sentence", "sentence_order"):
        return heads.pooled_head(encoder, name)(states["pooled_output"])
    if name == "replaced_token":
        return heads.replaced_token_head(encoder)(states["sequence_output"])
    if name == "classifier":
        return heads.sequence_head(encoder, num_labels)(heads.sequence_vector(encoder, states))
    if name == "multiple_choice":
        return heads.choice_head(encoder)(states["pooled_output"])
    num_classes = 2 if name == "question_answerer" else num_labels
    return heads.token_head(encoder, num_classes, name=name)(states["sequence_output"])

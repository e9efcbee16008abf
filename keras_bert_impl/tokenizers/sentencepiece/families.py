"""Model families with a supported SentencePiece tokenizer, and how they differ."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Family:
    """Properties of the tokenizers of a model family.

    Attributes:
        tokenizer_class: The class of `transformers`.
        model_types: Values of `model_type` in config.json.
        files: Possible names of the SentencePiece model.
        special_tokens: Padding, unknown, first, separator, mask.
        num_separators, segment_of_second: Same as in `Tokenizer`.
        folds: Whether the text is decomposed, stripped of marks and lowercased.
        first_tokens: The tokens before the pieces of the SentencePiece model.
        num_replaced: The number of first pieces that they replace.
    """

    tokenizer_class: str
    model_types: tuple[str, ...]
    files: tuple[str, ...]
    special_tokens: tuple[str, ...]
    num_separators: int = 2
    segment_of_second: int = 0
    folds: bool = False
    first_tokens: tuple[str, ...] = ()
    num_replaced: int = 0


FAMILIES = {
    "ALBERT": Family(
        tokenizer_class="AlbertTokenizer",
        model_types=("albert",),
        # Hugging Face's name, then Google's, also in TF Hub modules.
        files=("spiece.model", "30k-clean.model", "assets/30k-clean.model"),
        special_tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        num_separators=1,
        segment_of_second=1,
        folds=True,
    ),
    "XLM-RoBERTa": Family(
        tokenizer_class="XLMRobertaTokenizer",
        model_types=("xlm-roberta", "xlm-roberta-xl"),
        files=("sentencepiece.bpe.model",),
        special_tokens=("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
        first_tokens=("<s>", "<pad>", "</s>", "<unk>"),
        num_replaced=3,
    ),
    "CamemBERT": Family(
        tokenizer_class="CamembertTokenizer",
        model_types=("camembert",),
        files=("sentencepiece.bpe.model",),
        special_tokens=("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
        first_tokens=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        num_replaced=1,
    ),
}

"""Model families with a supported SentencePiece tokenizer, and how they differ."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Family:
    """Properties of the tokenizers of a model family.

    Attributes:
        tokenizer_class: str, the class of `transformers`.
        model_types: tuple of str, `model_type` in config.json.
        files: tuple of str, possible names of the SentencePiece model.
        special_tokens: tuple of str: padding, unknown, first, separator, mask.
        num_separators, segment_of_second: ints, same as in `Tokenizer`.
        folds: bool. Whether the text is decomposed, stripped of marks and lowercased.
        first_tokens: tuple of str, the tokens before the pieces of the SentencePiece model.
        num_replaced: int, the number of first pieces that they replace.
    """

    tokenizer_class: str
    model_types: tuple
    files: tuple
    special_tokens: tuple
    num_separators: int = 2
    segment_of_second: int = 0
    folds: bool = False
    first_tokens: tuple = ()
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

"""Migration from KerasHub."""

from migration_table import Library, Row, Table

_MODEL = "TextClassifier.from_pretrained"

_CLASSES = [
    Row("BertBackbone", ("Encoder",)),
    Row("BertTextClassifier", ("TextClassifier",)),
    Row("BertMaskedLM", ("MaskedLM",)),
    Row("BertTextEmbedder", ("TextEmbedder",)),
    Row("BertTokenizer", ("WordPieceTokenizer",)),
    Row("BertTextClassifierPreprocessor", (), "not needed: models contain their tokenizer"),
    Row("BertMaskedLMPreprocessor", ("mask_tokens",)),
]
_CLASSIFIER = [
    Row(
        "BertTextClassifier.from_preset(preset=)",
        ("TextClassifier.from_pretrained(name_or_path=)",),
    ),
    Row(
        "BertTextClassifier.from_preset(load_weights=)",
        ("EncoderConfig.named",),
        "`Encoder(EncoderConfig.named(name))` has random weights",
    ),
    Row("BertTextClassifier(num_classes=)", (f"{_MODEL}(num_classes=)", f"{_MODEL}(labels=)")),
    Row(
        "BertTextClassifier(activation=)",
        ("TextClassifier.predict",),
        "returns probabilities, not logits",
    ),
    Row("BertTextClassifier(dropout=)", (f"{_MODEL}(head_dropout=)",)),
    Row("BertTextClassifier.backbone", (), "the attribute `encoder` of `TextClassifier`"),
    Row("BertTextClassifier.preprocessor", (), "the attribute `tokenizer` of `TextClassifier`"),
    Row(
        "BertTextClassifier.save_to_preset",
        ("TextClassifier.save_pretrained", "keras-bert convert --form"),
        "`--form keras_hub` writes a preset",
    ),
    Row("BertTextClassifier.presets", ("keras-bert models",)),
]
_PREPROCESSOR = [
    Row(
        "BertTextClassifierPreprocessor(sequence_length=)",
        (f"{_MODEL}(max_length=)",),
        "default 128, not 512",
    ),
    Row(
        "BertTextClassifierPreprocessor(truncate=)",
        (f"{_MODEL}(long_texts=)",),
        "the longer text of a pair is truncated first",
    ),
    Row(
        "BertTokenizer(lowercase=)", ("WordPieceTokenizer(lowercase=)",), "default true, not false"
    ),
    Row(
        "BertMaskedLMPreprocessor(mask_selection_length=)",
        ("mask_tokens(max_predictions=)",),
        "no limit by default (instead of 96)",
    ),
    Row(
        "BertMaskedLMPreprocessor(mask_token_rate=)",
        ("mask_tokens(mask_split=)",),
        "fractions of masked, random and unchanged tokens",
    ),
]
_BACKBONE = [
    Row("BertBackbone(dropout=)", ("EncoderConfig(dropout=)", "EncoderConfig(attention_dropout=)")),
    Row("BertBackbone.enable_lora(rank=)", ("Adapter(size=)",), '`Adapter("lora", size=4)`'),
]

LIBRARY = Library(
    "KerasHub",
    "`from_pretrained` reads presets by name and from a directory. `Encoder.from_keras_hub` and "
    "`to_keras_hub` convert backbones: [KerasHub](google-and-kerashub.md#kerashub). `compile`, `fit` "
    "and `EncoderConfig` have KerasHub's argument names, except in these tables.",
    [
        Table("Classes", "KerasHub", _CLASSES),
        Table("`BertTextClassifier`", "KerasHub", _CLASSIFIER),
        Table("Preprocessors and tokenizers", "KerasHub", _PREPROCESSOR),
        Table("`BertBackbone`", "KerasHub", _BACKBONE),
    ],
)

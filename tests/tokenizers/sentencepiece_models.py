"""Small SentencePiece models, trained in a second, with the layout of a published family."""

import json
import random

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

TEXT = """It's a test of what doesn't fit: naïve cafés, 1,234.5 numbers (and “quotes”).
We'll see that they've been I'd say; aaaaaa bbbb the the the then them there theirs.
Well-known 2,666 and 888 or 1,000, 2,000, 22,222 -- two tests of the best, 500 £ or €.
über straße Füße garçon élève été déjà là où naïveté œuvre.
日本語テキスト 东京都 日本の 한국어 텍스트 русский текст ещё раз ελληνικά κείμενα 😀😀 ½ ﬁne ﬁt"""
ODD = [
    "",
    " ",
    " \n\t ",
    "x  y \n z\t\t",
    "``a'' it''s '''quoted'''' ``",
    "a [MASK] b[MASK]  \n <mask> <mask <mask>",
    "<s>hi</s> <pad>x<unk><<mask>> [CLS]a[SEP] [mask] <s>NOTUSED",
    "＜s＞ ＜mask＞ ［MASK］",
    "1234 12.5% 2,666 1,000, (2,000) 888 8888 $$$ !?!?",
    "\u3000x \u00a0y\u2028z\u200bw",
    "👩‍👩‍👧 ok 👍🏽 e\u0301t\u0302x e\u0302\u0301 \u0000 \ufffd \ue000 \U0001fadf",
    "\x01abc \x02d",
    "[MASK]\x01ab<mask>\x01\x02cd",
    "ﬁ\u0301x ½\u0301x ½\u0301\u0301 \u200b\u0301a \u0600e\u0301 ﬁ\u200dx",
    "▁ a ▁▁b c▁d ▁",
    "日本語テキスト東京ｶﾞ ﬀ ﷺ ｆｕｌｌ",
    "İstanbul ΣΑΣ ẞ Ǆ ŉ",
    "aaaaaaaaaaaaa baaaab 日日日日",
    "́abc",
]


def train(directory, family, **options):
    """Writes a family's SentencePiece model and the configuration that names the family."""
    name, tokenizer_class = {
        "ALBERT": ("spiece", "AlbertTokenizer"),
        "XLM-RoBERTa": ("sentencepiece.bpe", "XLMRobertaTokenizer"),
        "CamemBERT": ("sentencepiece.bpe", "CamembertTokenizer"),
        "BigBird": ("spiece", "BigBirdTokenizer"),
    }[family]
    settings = {"vocab_size": 400, "character_coverage": 0.9995, "max_sentencepiece_length": 8}
    lines = TEXT.split("\n")
    if family == "ALBERT":
        lines = [line.lower() for line in lines]
        settings |= {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
        settings["control_symbols"] = ["[CLS]", "[SEP]", "[MASK]"]
        settings["user_defined_symbols"] = ["(", ")", "-", "."]
    if family == "BigBird":
        settings |= {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 6}
        settings["user_defined_symbols"] = ["[CLS]", "[SEP]", "[MASK]"]
        settings["normalization_rule_name"] = "identity"
    draw = random.Random(0)
    words = [word for line in lines for word in line.split()]
    lines += [" ".join(draw.choices(words, k=12)) for _ in range(300)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(directory / name),
        hard_vocab_limit=False,
        minloglevel=2,
        **settings | options,
    )
    config = {"tokenizer_class": tokenizer_class}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    path = directory / f"{name}.model"
    if family == "ALBERT":  # like the published model, has an unused number with a comma
        model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
        model.pieces[-1].piece, model.pieces[-1].score = "2,", -2.0
        path.write_bytes(model.SerializeToString())
    return path

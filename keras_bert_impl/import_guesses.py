"""Suggestions for imports of unknown names."""

import ast
import difflib
import importlib.util
import re
from pathlib import Path

_ROOT = Path(__file__).parent
# Pattern of a name in transformers, sentence-transformers, KerasHub, Model Garden, keras-bert or
# bert-for-tf2 -> suggestion. The first match is used.
_LINES = {
    r".*Tokenizer(Fast)?|load_vocabulary": "Tokenizer.from_pretrained(name)",
    r"BertClassifier|KerasClassifier|\w*SklearnClassifier": (
        "keras_bert_impl.scikit_learn.BertClassifier for scikit-learn, or "
        "TextClassifier.from_pretrained(name, num_classes=2)"
    ),
    r".*ForSequenceClassification|.*TextClassifier|CrossEncoder": (
        "TextClassifier.from_pretrained(name, num_classes=2)"
    ),
    r".*ForTokenClassification|BertTokenClassifier": (
        "TokenClassifier.from_pretrained(name, labels=labels)"
    ),
    r".*ForQuestionAnswering|BertSpanLabeler": "QuestionAnswerer.from_pretrained(name)",
    r".*ForMultipleChoice": "MultipleChoice.from_pretrained(name)",
    r".*(ForMaskedLM|WithLMHeadModel|\wMaskedLM)": "MaskedLM.from_pretrained(name)",
    r".*(ForCausalLM|LMHeadModel|\wCausalLM)": "CausalLM.from_pretrained(name)",
    r".*ForNextSentencePrediction": "NextSentencePredictor.from_pretrained(name)",
    r".*ForPreTraining|BertPretrainer(V2)?": "Pretrainer.from_pretrained(name)",
    r"SentenceTransformer.*": "TextEmbedder.from_pretrained(name).encode(texts)",
    r".*(Config|PretrainedConfig)": 'EncoderConfig.named("bert-base-uncased")',
    r"(TF|Flax)?[A-Z]\w*(Model|Backbone|ModelLayer|MainLayer)|\w*BertEncoder|get_model|build_transformer_model|"
    r"load_trained_model_from_checkpoint|load_stock_weights|extract_embeddings|get_pretrained": (
        "Encoder.from_pretrained(name)"
    ),
    r".*(Trainer|TrainingArguments)(Callback)?": (
        "model.fit(texts, labels), or finetune(model, train, dev, directory, epochs=3)"
    ),
    r"pipeline|\w*Pipeline": (
        "TextClassifier.from_pretrained(name).classify(texts); likewise TokenClassifier.tag, "
        "QuestionAnswerer.answer, MaskedLM.fill, TextEmbedder.encode"
    ),
    r".*Preprocessor|DataCollator\w*|default_data_collator|InputExample|InputFeatures": (
        "model.fit(texts, labels), with strings as inputs"
    ),
    r"load_dataset|DatasetDict|Dataset|load_metric": (
        "keras_bert_impl.tasks.read_table(file, text=column, label=column)"
    ),
    r"create_optimizer|AdamWarmup|AdamWeightDecay|get_\w*schedule\w*|WarmUp|PolynomialDecay": (
        "model.compile(learning_rate=3e-5), or AdamW and LinearWarmupDecay"
    ),
    r"LoraConfig|get_peft_model|PeftModel|TaskType": 'from_pretrained(name, adapter=Adapter("lora"))',
    r"get_custom_objects": "keras.models.load_model(file); its classes are registered",
    r"set_seed": "keras.utils.set_random_seed(seed)",
}


def explain(package: str, name: str) -> str | None:
    """Returns a suggestion for a name that `package` does not define, or None."""
    if name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is not None:
        return None
    home = _home(name)
    if home is not None:
        return f"Write `from {home} import {name}`."
    line = next((line for pattern, line in _LINES.items() if re.fullmatch(pattern, name)), None)
    if line is not None:
        return f"Write {line}."
    near = difflib.get_close_matches(name, _names(_ROOT.joinpath(*package.split(".")[1:])), 1, 0.8)
    return f"Did you mean {near[0]!r}?" if near else None


def _home(name):
    """Returns the package that exports a public name, without importing the package."""
    for folder in (_ROOT, *sorted(path.parent for path in _ROOT.glob("*/__init__.py"))):
        if name in _names(folder):
            return ".".join([_ROOT.name, *folder.relative_to(_ROOT).parts])
    return None


def _names(folder):
    """Returns the public names in an `__init__.py`: imports, definitions and keys of dicts."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.Dict):
            names += [key.value for key in node.keys if isinstance(key, ast.Constant)]
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]

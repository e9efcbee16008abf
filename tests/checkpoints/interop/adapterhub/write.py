"""Writes the folders beside this file with `adapters` 1.3.0: python write.py FOLDER."""

import json
import os
import sys
from pathlib import Path

import adapters
import torch
import transformers

os.chdir(sys.argv[1])  # so that the files contain relative paths
IDS = torch.tensor([[2, 5, 6, 7, 8, 9, 10, 3], [2, 11, 12, 13, 3, 0, 0, 0]])
SIZES = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 12, "initializer_range": 0.3, "pad_token_id": 0}
CONFIGS = {
    "Bert": transformers.BertConfig(max_position_embeddings=16, **SIZES),
    "Roberta": transformers.RobertaConfig(max_position_embeddings=17, type_vocab_size=1, **SIZES),
}
LABELS = {"num_labels": 3, "id2label": {0: "x", 1: "y", 2: "z"}}
CASES = {  # name -> (configuration of the adapter, method that adds the head, its settings)
    "pfeiffer": ("seq_bn", "add_classification_head", LABELS),
    "houlsby": ("double_seq_bn", "add_classification_head", LABELS),
    "multi": ("seq_bn", "add_classification_head", LABELS | {"multilabel": True}),
    "tagging": ("seq_bn", "add_tagging_head", LABELS),
    "answers": ("double_seq_bn", "add_qa_head", {}),
}

for family, config in CONFIGS.items():
    torch.manual_seed(0)
    folder = Path(family.lower())
    plain = getattr(transformers, f"{family}Model")(config)
    plain.save_pretrained(folder / "base")
    logits = {}
    for name, (kind, add_head, settings) in CASES.items():
        model = getattr(adapters, f"{family}AdapterModel").from_pretrained(folder / "base")
        model.add_adapter(name, config=adapters.AdapterConfig.load(kind, reduction_factor=4))
        getattr(model, add_head)(name, **settings)
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                if f".{name}." in path:
                    parameter.normal_(0, 0.3)
            model.set_active_adapters(name)
            outputs = model.eval()(input_ids=IDS, attention_mask=(IDS != 0).long())
        is_qa = name == "answers"
        parts = (outputs.start_logits, outputs.end_logits) if is_qa else (outputs.logits,)
        logits[name] = [part.tolist() for part in parts]
        (folder / name).mkdir(exist_ok=True)
        model.save_adapter(str(folder / name), name, use_safetensors=name != "houlsby")
    (folder / "logits.json").write_text(json.dumps({"ids": IDS.tolist()} | logits))

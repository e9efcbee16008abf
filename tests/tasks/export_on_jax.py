"""Exports models on the backend in KERAS_BACKEND; prints what they predict.

Arguments: folder of a masked language model, folder to export to.
"""

import json
import sys
from pathlib import Path

import numpy as np

from keras_bert_impl.tasks import MaskedLM
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import classifier

model, out = map(Path, sys.argv[1:])
TEXTS = ["good film", "the plot is very dull"]
answers = {}

tagged = classifier(dropout=0.0)
tagged.compile(learning_rate=1e-3)
tagged.fit(TEXTS, ["positive", "negative"], verbose=0)
tagged.export(out / "saved_model")
tagged.export(out / "onnx", format="onnx")
answers["scores"] = tagged.predict(TEXTS, verbose=0).tolist()

masked_lm = MaskedLM.from_pretrained(model)
masked_lm.export(out / "masked_lm", top_k=2)
answers["fillings"] = [[f.token for f in mask] for mask in masked_lm.fill("a [MASK]", top_k=2)]

try:
    tagged.export(out / "other", format="onnx", precision="int3")
except InputError as error:
    answers["error"] = str(error)
print(json.dumps(answers, default=np.ndarray.tolist))

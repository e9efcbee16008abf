# A researcher in a notebook wants to see inside a model and to train with changes.
import os

from keras_bert_impl import Adapter, Encoder, TextClassifier, Tokenizer, finetune_set

encoder = Encoder.from_pretrained(os.environ["MODEL"])
tokenizer = Tokenizer.from_pretrained(os.environ["MODEL"])
outputs = encoder.with_outputs("hidden_states", "attention_scores")(tokenizer(["It was too big."]))
print(len(outputs["hidden_states"]), outputs["attention_scores"][0].shape)
# => hidden states and attention maps

texts, labels = ["a joy", "dull", "what a film", "far too long"], ["good", "bad", "good", "bad"]
classifier = TextClassifier.from_pretrained(
    os.environ["MODEL"], labels=["bad", "good"], adapter=Adapter("lora")
)
classifier.fit(texts, labels, epochs=3, verbose=0)
print(classifier.predict(["a long joy"]).shape)
# => a model with LoRA, trained by Keras's `fit`

finetune_set(
    os.environ["MODEL"],
    (texts, labels),
    (texts, labels),
    "sweep",
    {"seed": [1, 2]},
    epochs=1,
    verbose=0,
)
print(open("sweep/scores.json").read())
# => scores with their spread over two seeds

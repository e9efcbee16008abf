"""Search for hyperparameters with KerasTuner.

A task model is a `keras.Model`, so a tuner needs only a function that builds and compiles one. This
example searches for the best learning rate and pooling. It needs `pip install keras-tuner`. Without
KerasTuner, `finetune_set` runs sweeps over seeds and settings.

    python examples/hyperparameters.py --model bert-base-uncased
"""

import importlib.util
import tempfile

from common import TICKETS, parse_arguments

from keras_bert_impl import TextClassifier
from keras_bert_impl.tasks import read_table


def main(argv: list[str] | None = None) -> list[tuple[dict, float]] | None:
    arguments = parse_arguments(argv, __doc__)
    if importlib.util.find_spec("keras_tuner") is None:
        print("skipped: this example needs KerasTuner, pip install keras-tuner")
        return None
    import keras_tuner

    tickets = read_table(TICKETS, text="ticket", label="team")
    train = tickets.texts[:48], tickets.labels[:48]
    dev = tickets.texts[96:], tickets.labels[96:]

    def build(values: "keras_tuner.HyperParameters") -> TextClassifier:
        pooling = values.Choice("pooling", ["mean", "max"])
        classifier = TextClassifier.from_pretrained(
            arguments.model, labels=sorted(set(tickets.labels)), pooling=pooling, max_length=32
        )
        rate = values.Float("learning_rate", 1e-5, 1e-3, sampling="log")
        classifier.compile(learning_rate=rate, metrics=["accuracy"])
        return classifier

    class Search(keras_tuner.RandomSearch):
        def run_trial(self, trial, *args, **kwargs):  # without it, KerasTuner needs tensorboard
            model = self.hypermodel.build(trial.hyperparameters)
            history = model.fit(*train, validation_data=dev, epochs=2, batch_size=16, verbose=0)
            return history.history["val_accuracy"][-1]

    with tempfile.TemporaryDirectory() as folder:
        trials = 2 if arguments.quick else 6
        objective = keras_tuner.Objective("val_accuracy", "max")
        tuner = Search(build, objective, max_trials=trials, seed=1, directory=folder)
        tuner.search(verbose=0)
        trials = tuner.oracle.get_best_trials(trials)
    found = [(trial.hyperparameters.values, trial.score) for trial in trials]
    for values, accuracy in found:
        print(f"accuracy {accuracy:.2f}  {values['pooling']:4} {values['learning_rate']:.1e}")
    return found


if __name__ == "__main__":
    main()

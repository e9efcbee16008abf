"""A worker of MultiWorkerMirroredStrategy, or a complete run on one device; prints JSON."""

import json
import logging
import sys

from keras_bert_impl.training.runs.checkpoints import RunCheckpoint
from keras_bert_impl.training.strategy import get_strategy, is_chief
from tests.training.helpers import MaskedTokenModel, adamw, build, dataset, examples, weights


def run(directory, strategy_name):
    """Returns the results of the run as JSON values."""
    strategy = get_strategy(strategy_name)
    with strategy.scope():
        model = build(MaskedTokenModel)
        model.compile(
            optimizer=adamw(),
            metrics=[],
            jit_compile=False,
            accumulation_steps=2,
            steps_per_execution=2,
        )
    # The last of 41 examples form a batch of 9; the workers get 5 and 4 of them.
    data = dataset(16, 41)
    checkpoint = RunCheckpoint(model, directory, seed=3)
    start = checkpoint.restore()
    history = model.fit(
        data, epochs=2, initial_epoch=start, validation_data=data, verbose=0, callbacks=[checkpoint]
    ).history
    predictions = model.predict(examples(41)[0], batch_size=16, verbose=0)
    return {
        "replicas": strategy.num_replicas_in_sync,
        "chief": is_chief(),
        "history": history,
        "evaluation": model.evaluate(data, verbose=0),
        "predictions": predictions[:, 0, :4].tolist(),
        "weights": [array.ravel().tolist() for array in weights(model)],
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    print(json.dumps(run(*sys.argv[1:])), flush=True)

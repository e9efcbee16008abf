"""A worker of a pre-training run, or all of it; on the last worker, the fourth batch is bad.

Arguments: folder of the records, run directory, settings in JSON.
"""

import json
import sys

from keras_bert_impl.pretraining import stages
from keras_bert_impl.pretraining.run import pretrain
from tests.pretraining.test_run_stages import batches, poison


def main(records, run, settings):
    whole, spoiled = stages.pretraining_dataset, batches(3, poison)

    def of_a_worker(*arguments, shard_index=0, num_shards=1, **keywords):
        read = spoiled if shard_index == num_shards - 1 else whole
        return read(*arguments, shard_index=shard_index, num_shards=num_shards, **keywords)

    stages.pretraining_dataset = of_a_worker
    pretrain(records, run, **json.loads(settings))


if __name__ == "__main__":
    main(*sys.argv[1:])

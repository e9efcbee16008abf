"""Migration from the Model Garden and from google-research/bert."""

from migration_table import Library, Row, Table

_TUNE, _TRAIN, _PREPARE = "keras-bert finetune", "keras-bert pretrain", "keras-bert prepare"

_SENTENCES = [
    Row("task.init_checkpoint", (f"{_TUNE} --model",), "the checkpoint path"),
    Row("task.hub_module_url", (f"{_TUNE} --model",), "the directory of the SavedModel"),
    Row(
        "task.train_data.tfds_name",
        (f"{_TUNE} --tfds",),
        "`--train` and `--dev` name the splits",
    ),
    Row("task.train_data.text_fields", (f"{_TUNE} --text", f"{_TUNE} --pair")),
    Row("trainer.train_steps", (f"{_TUNE} --epochs",), "epochs instead of steps"),
    Row(
        "trainer.checkpoint_interval",
        (f"{_TUNE} --checkpoint-minutes",),
        "also saves after each epoch",
    ),
    Row(
        "trainer.optimizer_config.learning_rate.polynomial.decay_steps",
        (),
        "not needed: the learning rate decays to 0 until the end of the run",
    ),
    Row(
        "trainer.optimizer_config.warmup.polynomial.warmup_steps",
        (f"{_TUNE} --warmup",),
        "a fraction of the steps",
    ),
    Row(
        "trainer.optimizer_config.optimizer.adamw.exclude_from_weight_decay",
        ("AdamW(not_decayed=)",),
        "biases and normalization layers by default",
    ),
    Row("runtime.distribution_strategy", (f"{_TUNE} --strategy", "get_strategy(name=)")),
]
_PRETRAINING = [
    Row("task.train_data.tfds_name", (_PREPARE,), "`tfds://name:split` as the text"),
    Row("task.train_data.vocab_file_path", (f"{_PREPARE} --tokenizer",)),
    Row("task.train_data.use_next_sentence_label", (f"{_PREPARE} --objective",)),
    Row("task.train_data.use_whole_word_masking", (f"{_TRAIN} --mask-unit",), "`word`"),
    Row("task.validation_data", (f"{_PREPARE} --held-out",)),
    Row("task.model.cls_heads", (f"{_TRAIN} --objectives",)),
    Row("trainer.train_steps", (f"{_TRAIN} --total-steps",)),
    Row("trainer.steps_per_loop", (f"{_TRAIN} --steps-per-execution",)),
    Row("trainer.summary_interval, trainer.checkpoint_interval", (f"{_TRAIN} --report-every",)),
    Row("trainer.validation_interval", (f"{_TRAIN} --evaluate-every",)),
]
_RUN_CLASSIFIER = [
    Row("--data_dir", (f"{_TUNE} --data",), "or a table with `--train` and `--dev`"),
    Row("--init_checkpoint", (f"{_TUNE} --model",), "the directory of the checkpoint"),
    Row("--bert_config_file, --vocab_file", (), "not needed: read from the checkpoint directory"),
    Row("--do_lower_case", ("WordPieceTokenizer(lowercase=)",), "default: from the vocabulary"),
    Row("--do_train", (_TUNE,), "also evaluates the model"),
    Row("--do_eval", ("keras-bert evaluate",)),
    Row("--do_predict", ("keras-bert predict",)),
    Row("--learning_rate", (f"{_TUNE} --learning-rate",), "default 3e-5, not 5e-5"),
    Row(
        "--save_checkpoints_steps",
        (f"{_TUNE} --checkpoint-minutes",),
        "also saves after each epoch",
    ),
    Row("--use_tpu, --tpu_name", (f"{_TUNE} --strategy",), "`tpu`"),
]
_CREATE = [
    Row("--input_file", (_PREPARE,), "first argument: files, directories or buckets"),
    Row("--vocab_file", (f"{_PREPARE} --tokenizer",), "a directory"),
    Row("--do_lower_case", ("keras-bert vocab --cased",), "saved with the tokenizer"),
    Row(
        "--dupe_factor",
        (f"{_PREPARE} --passes", f"{_TRAIN} --dupe-factor"),
        "`--passes 10` and `--dupe-factor 1`; by default, each epoch has new masks",
    ),
    Row(
        "--short_seq_prob",
        ("prepare(short_sequence_probability=)",),
        "in Python only; same default",
    ),
    Row("--masked_lm_prob", (f"{_TRAIN} --mask-rate",), "tokens are masked during training"),
    Row("--max_predictions_per_seq", (f"{_TRAIN} --max-predictions",), "no limit by default"),
    Row(
        "--do_whole_word_mask",
        (f"{_TRAIN} --mask-unit", f"{_PREPARE} --segmented"),
        "`word`; `--segmented` for Chinese",
    ),
]
_RUN_PRETRAINING = [
    Row("--input_file", (_TRAIN,), "first argument: directory of records"),
    Row(
        "--bert_config_file",
        (f"{_TRAIN} --model",),
        "name of a published model, or a `config.json`",
    ),
    Row("--init_checkpoint", (f"{_TRAIN} --model",), "a model directory"),
    Row("--train_batch_size", (f"{_TRAIN} --batch-size",), "default 256, not 32"),
    Row("--learning_rate", (f"{_TRAIN} --learning-rate",), "default 1e-4, not 5e-5"),
    Row("--num_train_steps", (f"{_TRAIN} --total-steps",)),
    Row("--num_warmup_steps", (f"{_TRAIN} --warmup-steps",), "by default, a tenth of the steps"),
    Row("--save_checkpoints_steps", (f"{_TRAIN} --report-every",), "default 100, not 1000"),
    Row("--iterations_per_loop", (f"{_TRAIN} --steps-per-execution",), "default 1, not 1000"),
    Row("--do_eval", (f"{_PREPARE} --held-out", f"{_TRAIN} --evaluate-every")),
    Row("--max_eval_steps", (), "all held-out examples are scored"),
    Row("--use_tpu, --tpu_name", (f"{_TRAIN} --strategy",), "`tpu`"),
]

MODEL_GARDEN = Library(
    "Model Garden (official/nlp)",
    "`from_pretrained` reads the checkpoints with their `params.yaml`, and SavedModels of TF Hub: "
    "[Google checkpoints](google-and-kerashub.md#google-checkpoints). The tables list keys of "
    "`params.yaml`.",
    [
        Table("`bert/sentence_prediction`", "key", _SENTENCES),
        Table("Pre-training", "key", _PRETRAINING),
    ],
)
GOOGLE_RESEARCH = Library(
    "google-research/bert",
    "`from_pretrained` reads the checkpoints: "
    "[Google checkpoints](google-and-kerashub.md#google-checkpoints).",
    [
        Table("`run_classifier.py`", "flag", _RUN_CLASSIFIER),
        Table("`create_pretraining_data.py`", "flag", _CREATE),
        Table("`run_pretraining.py`", "flag", _RUN_PRETRAINING),
    ],
)

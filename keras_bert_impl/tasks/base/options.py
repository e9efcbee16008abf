"""Allowed values of task model options; imports nothing heavy, for the command line."""

# The folder of a task declares in its `__init__`: `TASK_NAME`, the value of `--task`, None for the
# task of tables; `READER_OPTIONS`, the fields of `ExampleSource` that its reader takes; `READS`, what
# it reads, and if needed `READER_NOTE`, for `--help`.
TABLE_OPTIONS = {"text", "pair", "label", "id", "delimiter", "no_header"}

# Labels of a text: one class, several classes at once, or numbers.
SINGLE = "single_label_classification"
MULTI = "multi_label_classification"
REGRESSION = "regression"
PROBLEM_TYPES = (SINGLE, MULTI, REGRESSION)
ABOUT_SEVERAL = f" If a text may have several labels, create the model with problem_type={MULTI!r}."

# How texts longer than a row are handled; `OF_WINDOWS` split them into windows.
OF_WINDOWS = ("mean", "max", "attention")
LONG_TEXTS = ("truncate", "head_tail", *OF_WINDOWS)

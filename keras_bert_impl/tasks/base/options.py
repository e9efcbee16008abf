"""Allowed values of task model options; imports nothing heavy, for the command line."""

# Labels of a text: one class, several classes at once, or numbers.
SINGLE = "single_label_classification"
MULTI = "multi_label_classification"
REGRESSION = "regression"
PROBLEM_TYPES = (SINGLE, MULTI, REGRESSION)
ABOUT_SEVERAL = f" If a text may have several labels, create the model with problem_type={MULTI!r}."

# How texts longer than a row are handled; `OF_WINDOWS` split them into windows.
OF_WINDOWS = ("mean", "max", "attention")
LONG_TEXTS = ("truncate", "head_tail", *OF_WINDOWS)

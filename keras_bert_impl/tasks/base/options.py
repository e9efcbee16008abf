"""Values that options of task models can have; imports nothing heavy, for the command line."""

# What the labels of a text are: one class, several classes at once, or numbers.
SINGLE = "single_label_classification"
MULTI = "multi_label_classification"
REGRESSION = "regression"
PROBLEM_TYPES = (SINGLE, MULTI, REGRESSION)

# What becomes of texts that are longer than a row; some of the ways read them in windows.
OF_WINDOWS = ("mean", "max", "attention")
LONG_TEXTS = ("truncate", "head_tail", *OF_WINDOWS)

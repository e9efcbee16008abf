"""What all kinds of tasks have in common in a run."""

LONG_TEXT_SETTINGS = ("long_texts", "doc_stride", "max_windows")  # of those with one vector a text


class Kind:
    """A kind of task, made of the examples of a run.

    Args:
        train, dev: labelled examples of the kind.

    Raises:
        InputError: labels that cannot be learned, or that only one of the two has.

    Attributes:
        model_class: the `TaskModel`.
        settings: names of `FinetuneSettings` that are this task's own.
        arguments: dict for `model_class.from_pretrained`.
    """

    def inputs(self, examples):
        """Examples as `fit` takes them: (x, y)."""
        return examples.texts, examples.labels

    @staticmethod
    def score(model, examples, directory=None):
        """Scores a model.

        Args:
            model: of `model_class`.
            examples: of the kind, with labels.
            directory: `Path` of an existing folder for the predictions; None for none.

        Returns:
            dict of scores, that by which models are compared first.

        Raises:
            InputError: labels that the model does not know; says where.
        """
        raise NotImplementedError

    def finish(self, model, dev, directory=None):
        """As `score`; what the task chooses on the development set is chosen before.

        Args:
            model: of `model_class`.
            dev: labelled examples.
            directory: `Path` of a run directory whose `model` the model was read from, and what is
                chosen is saved with; None to write nothing.
        """
        return self.score(model, dev, directory)

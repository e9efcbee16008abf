"""Distillation: a student with a third of the layers learns from a fine-tuned teacher.

`student_of` copies every third layer of the teacher. The student is trained on the labels and on
the teacher's probabilities. The example compares accuracy, size and speed of both models. The
tickets in `docs/tickets.csv` were generated from templates: on real texts, a student loses some
accuracy.

    python examples/distillation.py --model bert-base-uncased
"""

import tempfile
import time

from common import TICKETS, parse_arguments

from keras_bert_impl import TextClassifier, student_of
from keras_bert_impl.tasks import SoftTargets, read_table


def main(argv: list[str] | None = None) -> dict[str, float]:
    arguments = parse_arguments(argv, __doc__)
    tickets = read_table(TICKETS, text="ticket", label="team")
    train = tickets.texts[:120], tickets.labels[:120]
    dev = tickets.texts[120:], tickets.labels[120:]
    epochs = 2 if arguments.quick else 5

    teacher = TextClassifier.from_pretrained(
        arguments.model, labels=sorted(set(tickets.labels)), pooling="mean", max_length=32
    )
    teacher.compile(learning_rate=3e-4, metrics=["accuracy"])
    teacher.fit(*train, epochs=epochs, batch_size=16, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        teacher.save_pretrained(f"{folder}/teacher")
        layers = max(1, teacher.config.num_layers // 3)
        student_of(f"{folder}/teacher", f"{folder}/student", layers=layers)
        student = TextClassifier.from_pretrained(f"{folder}/student")
    student.compile(
        learning_rate=3e-4, metrics=["accuracy"], objective=SoftTargets(student, teacher)
    )
    student.fit(*train, epochs=epochs, batch_size=16, verbose=0)
    return {"teacher": report("teacher", teacher, dev), "student": report("student", student, dev)}


def report(name: str, model: TextClassifier, dev: tuple) -> float:
    """Prints a model's size, accuracy and time per text; returns the accuracy."""
    accuracy = model.evaluate(*dev, verbose=0, return_dict=True)["accuracy"]
    start = time.perf_counter()
    model.predict(dev[0], verbose=0)
    milliseconds = 1000 * (time.perf_counter() - start) / len(dev[0])
    print(
        f"{name}: {model.config.num_layers} layers, {model.count_params():,} weights, "
        f"accuracy {accuracy:.2f}, {milliseconds:.1f} ms a text"
    )
    return accuracy


if __name__ == "__main__":
    main()

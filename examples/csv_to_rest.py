"""From a CSV file to a REST service.

Fine-tunes a model on the tickets in `docs/tickets.csv`, which were generated from templates,
exports it, starts `keras-bert serve`, and requests the team of a new ticket.

    python examples/csv_to_rest.py --model bert-base-uncased
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from common import TICKETS, parse_arguments

from keras_bert_impl import finetune
from keras_bert_impl.tasks import read_table

NEW = ["I paid two times this month", "The chart does not load", "I forgot my password"]
SERVE = [sys.executable, "-m", "keras_bert_impl.cli.main", "serve"]  # `keras-bert serve`


def main(argv: list[str] | None = None) -> list[str]:
    arguments = parse_arguments(argv, __doc__)
    tickets = read_table(TICKETS, text="ticket", label="team")
    with tempfile.TemporaryDirectory() as folder:
        epochs, rate = (2, 5e-4) if arguments.quick else (5, 3e-4)
        settings = {"epochs": epochs, "learning_rate": rate, "max_length": 32}
        # A real project scores on tickets that the model has not seen.
        model = finetune(arguments.model, tickets, tickets, f"{folder}/run", verbose=0, **settings)
        # A server looks for numbered versions of a model in its folder.
        model.export(f"{folder}/tickets/1")
        return ask(Path(folder, "tickets"))


def ask(exported: Path) -> list[str]:
    """Serves a model on a free port, and prints and returns its answers."""
    with subprocess.Popen([*SERVE, exported, "--port", "0"], stdout=subprocess.PIPE) as server:
        try:
            url = server.stdout.readline().decode().split()[-1]  # "serving http://..."
            body = json.dumps({"instances": NEW}).encode()
            with urllib.request.urlopen(f"{url}:predict", body, timeout=60) as response:
                predictions = json.load(response)["predictions"]
        finally:
            server.terminate()
    for text, answer in zip(NEW, predictions, strict=True):
        print(f"{answer['label']:8} {answer['score']:.2f}  {text}")
    return [answer["label"] for answer in predictions]


if __name__ == "__main__":
    main()

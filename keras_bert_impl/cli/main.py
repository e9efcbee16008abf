"""The `keras-bert` command: command table and error handling."""

import argparse
import codecs
import errno
import importlib
import os
import sys
from types import ModuleType

from keras_bert_impl.cli.parser import CommandParser, suggestion
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.version import __version__

# Group of commands -> command -> its module in `keras_bert_impl.cli`, and a description. A module
# defines `add_arguments(parser)`, `run(arguments)`, `EXAMPLE` and, to find bad combinations of
# arguments early, `check(arguments)`, and `check_files(arguments)` if it looks into files that are
# known to exist. Only the selected one is imported, and none imports TensorFlow before `run`.
GROUPS = {
    "start": {
        "quickstart": (
            "quickstart",
            "run the whole path, from text to a served model, on a small corpus",
        ),
        "models": ("models.list", "list the published models and their names"),
        "doctor": (
            "doctor.command",
            "check this installation, and say what to do about its problems",
        ),
        "completion": ("completion", "print a script that completes commands in bash and zsh"),
    },
    "prepare and train": {
        "vocab": ("training.vocab", "learn a WordPiece vocabulary from text"),
        "prepare": ("training.prepare", "turn text into records for pre-training"),
        "augment": ("training.augment", "augment labeled texts by replacing words"),
        "finetune": ("training.finetune", "fine-tune a model on labeled texts"),
        "pretrain": ("training.pretrain", "pre-train an encoder on prepared records"),
        "recipes": ("training.recipes", "list published pre-training recipes"),
        "adapt": (
            "training.adapt",
            "continue the pre-training of a model on text of a domain",
        ),
        "student": ("models.student", "create a student model from a teacher's layers"),
        "input-worker": (
            "training.input_worker",
            "serve pre-training batches to other machines",
        ),
    },
    "use": {
        "predict": ("using.predict", "predict with a fine-tuned model"),
        "evaluate": ("using.evaluate", "score a fine-tuned model on labeled texts"),
        "report": ("using.report", "write a page about a run, or one that compares several"),
        "look": ("using.look", "write a page about what a model does with a text"),
        "drift": ("using.drift", "compare served texts with those of the training set"),
        "fill-mask": ("using.fill_mask", "predict the words that [MASK] stands for"),
        "embed": ("using.embed", "write the embeddings of texts"),
        "search": ("using.search", "find the texts that are closest in meaning to a query"),
    },
    "share and serve": {
        "export": (
            "models.export",
            "export a SavedModel that takes raw strings, or another format",
        ),
        "serve": (
            "using.serve",
            "serve an exported model over HTTP, as TensorFlow Serving does",
        ),
        "convert": (
            "models.convert",
            "convert a model between Hugging Face, Google and KerasHub files",
        ),
        "merge": ("models.merge", "merge LoRA weights into their base model"),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
INPUT_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


_ESCAPED = "keras_bert_impl.escaped"


def _escaped(error):
    """Encoding error handler: writes characters as JSON does, which is also valid in JSON."""
    text = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (text[place : place + 2].hex() for place in range(0, len(text), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end


codecs.register_error(_ESCAPED, _escaped)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in arguments
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: nothing is printed
            setattr(sys, name, open(os.devnull, "w"))
        elif getattr(stream, "errors", None) == "strict":  # of characters it cannot encode
            stream.reconfigure(errors=_ESCAPED)
    if not debug:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors are also raised
    # By default, TensorFlow enables oneDNN only on newer processors (docs/decisions/onednn.md).
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    try:
        _run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse after --help
        return stop.code or 0  # type: ignore[return-value]  # argparse's codes are int
    except KeyboardInterrupt:
        print("keras-bert: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output, such as `head`, has exited. Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        return _report(error)
    return 0


def _run(arguments):
    command, rest = _split(arguments)
    if command == "help":
        command, rest = _split([*rest, "--help"])
    if command is None:
        _overview().parse_args(rest or ["--help"])
        return
    module, parser = load(command)
    from keras_bert_impl.cli.common import import_tensorflow_quietly  # not needed for --help
    from keras_bert_impl.cli.kinds import check_values

    parsed = parse(parser, rest)
    if hasattr(module, "check"):
        module.check(parsed)
    check_values(parser, parsed)
    if hasattr(module, "check_files"):
        module.check_files(parsed)
    if getattr(module, "NEEDS_TENSORFLOW_BACKEND", False):
        os.environ["KERAS_BACKEND"] = "tensorflow"
    if getattr(module, "USES_TENSORFLOW", True) and not parsed.debug:
        import_tensorflow_quietly(alone=getattr(module, "TENSORFLOW_ALONE", False))
    module.run(parsed)


def load(command: str) -> tuple[ModuleType, CommandParser]:
    """Imports the module of a command.

    Returns:
        (module, parser of its arguments).
    """
    if command not in COMMANDS:
        hint = suggestion(command, COMMANDS) or "`keras-bert --help` lists them."
        raise InputError(f"there is no command {command!r}; {hint}")
    name, what = COMMANDS[command]
    module = importlib.import_module(f"keras_bert_impl.cli.{name}")
    parser = CommandParser(
        prog=f"keras-bert {command}",
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"examples:\n{module.EXAMPLE}",
        add_help=False,
    )
    module.add_arguments(parser)
    parser.add_common()
    return module, parser


def parse(parser: CommandParser, words: list[str]) -> argparse.Namespace:
    """Parses the arguments of a command; settings may appear before, between and after options."""
    parsed = parser.parse_intermixed_args(list(map(_dashed, words)))
    for name, value in vars(parsed).items():
        if value == "" and value != parser.get_default(name):  # as a path, "" is this folder
            parser.error(f"the value of {name} is empty; is a variable of the shell not set?")
    return parsed


def _split(arguments):
    """Returns (the command or None, the remaining arguments)."""
    for position, argument in enumerate(arguments):
        if not argument.startswith("-"):
            return argument, arguments[:position] + arguments[position + 1 :]
    return None, arguments


def _overview():
    width = max(map(len, COMMANDS))
    lines = []
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:{width}}  {what}" for name, (_, what) in commands.items()]
    parser = CommandParser(
        prog="keras-bert",
        usage="keras-bert COMMAND [arguments]",
        description="BERT for Keras 3: pre-train on your own text, fine-tune, serve raw strings.\n"
        + "\n".join(lines),
        epilog="`keras-bert COMMAND --help` explains one; `keras-bert doctor` checks the installation.",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--version",
        action="version",
        version=f"keras-bert {__version__}",
        help=argparse.SUPPRESS,
    )
    return parser


def _dashed(argument):
    """Replaces underscores in the name of an option with dashes."""
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if argument.startswith("--") else argument


def _report(error):
    """Prints an error on one line of stderr; returns the exit status."""
    if isinstance(error, InputError):
        message, status = str(error), INPUT_ERROR
    elif isinstance(error, MemoryError):
        message, status = "out of memory; try a smaller batch or a smaller model", INPUT_ERROR
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" to write {error.filename}" if error.filename else ""
        message, status = f"the disk is full: there is no space left{where}", INPUT_ERROR
    elif isinstance(error, OSError) and error.filename:
        message, status = f"{error.filename}: {error.strerror}", INPUT_ERROR
    else:
        text = f"{type(error).__name__}: {error}"
        message, status = f"{text[:500]} (`--debug` shows where)", FAILURE
    print(f"keras-bert: {' '.join(message.split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

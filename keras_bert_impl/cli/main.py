"""The `keras-bert` command: table of commands, error handling and shell completion."""

import argparse
import codecs
import errno
import importlib
import logging
import os
import re
import shlex
import sys

from keras_bert_impl.cli.parser import Command, CommandParser, suggestion
from keras_bert_impl.utils.errors import InputError, printable
from keras_bert_impl.utils.first_guesses import GUESSES
from keras_bert_impl.utils.io.lines import encoded_as
from keras_bert_impl.utils.progress import print_message
from keras_bert_impl.utils.version import __version__

# Group -> command -> (class in `keras_bert_impl.cli`, description). Only the module of the
# selected command is imported, and TensorFlow is not imported before `run`.
GROUPS = {
    "start": {
        "models": ("models.Models", "list the published models and their names"),
        "doctor": (
            "doctor.Doctor",
            "check this installation, and print fixes for its problems",
        ),
        "completion": (
            "main.Completion",
            "print a script that completes commands in bash and zsh",
        ),
    },
    "prepare and train": {
        "check": ("preparing.Check", "check files of examples and show their statistics"),
        "clean": (
            "pretraining.Clean",
            "clean text: HTML, broken characters, other languages and near-duplicates",
        ),
        "vocab": ("preparing.Vocab", "learn a WordPiece vocabulary from text"),
        "tokenizer-report": (
            "models.TokenizerReport",
            "compare how tokenizers split the words of a corpus",
        ),
        "prepare": ("preparing.Prepare", "turn text into records for pre-training"),
        "augment": ("finetuning.Augment", "augment labeled texts by replacing words"),
        "finetune": ("finetuning.Finetune", "fine-tune a model on labeled texts"),
        "pretrain": ("pretraining.Pretrain", "pre-train an encoder on prepared records"),
        "recipes": ("pretraining.Recipes", "list published pre-training recipes"),
        "adapt": (
            "pretraining.Adapt",
            "continue pre-training on text of your domain",
        ),
        "student": ("models.Student", "create a student model from a teacher's layers"),
        "input-worker": (
            "pretraining.InputWorker",
            "serve pre-training batches to other machines",
        ),
    },
    "use": {
        "predict": ("predicting.Predict", "predict with a fine-tuned model"),
        "evaluate": ("scoring.Evaluate", "score a fine-tuned model on labeled texts"),
        "calibrate": (
            "models.Calibrate",
            "calibrate a text classifier's probabilities and choose its decision threshold",
        ),
        "report": (
            "scoring.Report",
            "write an HTML report about a run, or a comparison of several runs",
        ),
        "look": ("embedding.Look", "visualize attention and attributions for a text (HTML)"),
        "drift": (
            "scoring.Drift",
            "detect data drift between served texts and the training set",
        ),
        "fill-mask": ("embedding.FillMask", "predict the words at [MASK]"),
        "generate": ("embedding.Generate", "continue texts with a causal language model"),
        "embed": ("embedding.Embed", "write the embeddings of texts"),
        "search": ("embedding.Search", "find the texts that are most similar to a query"),
    },
    "share and serve": {
        "export": (
            "exporting.Export",
            "export a SavedModel that takes raw strings, or another format",
        ),
        "serve": (
            "serving.Serve",
            "serve an exported model over HTTP, as TensorFlow Serving does",
        ),
        "convert": (
            "models.Convert",
            "convert a model between Hugging Face, Google and KerasHub files",
        ),
        "merge": ("models.Merge", "merge LoRA weights into their base model"),
    },
}
# What the examples of a checkout do, by names that sound like commands.
EXAMPLES = {
    "quickstart": "bash tools/quickstart.sh",
    "ablate": "python -m examples.experiments.ablations",
    "learning-curve": "python -m examples.experiments.learning_curve",
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
INPUT_ERROR, FAILURE, INTERRUPTED = 2, 1, 130
_DASH = "\ufdd0"  # stands for the dash at the start of a word after `--`


_ESCAPED, _RAW = "keras_bert_impl.escaped", "keras_bert_impl.raw"


def _restore_bytes(error):
    """Encoding error handler that restores the bytes of names which Python could not decode."""
    text = error.object[error.start : error.end]
    is_undecoded = all("\udc80" <= character <= "\udcff" for character in text)
    return (os.fsencode(text), error.end) if is_undecoded else _escape_characters(error)


def _escape_characters(error):
    """Encoding error handler that writes unsupported characters as JSON escapes."""
    text = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (text[place : place + 2].hex() for place in range(0, len(text), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end


codecs.register_error(_ESCAPED, _escape_characters)
codecs.register_error(_RAW, _restore_bytes)
_HANDLERS = {"strict": _ESCAPED, "surrogateescape": _RAW, "backslashreplace": _RAW}


def _use_utf8():
    """Starts Python again in UTF-8 mode, if Python could decode only ASCII in arguments."""
    if sys.getfilesystemencoding() == "ascii" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # also for processes that commands start
        os.execv(sys.executable, sys.orig_argv)


class _PrintableLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def main(arguments: list[str] | None = None) -> int:
    if arguments is None:
        _use_utf8()
        arguments = sys.argv[1:]
    debug = "--debug" in arguments
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # The parent process has closed the stream.
            setattr(sys, name, open(os.devnull, "w"))
        elif getattr(stream, "errors", None) in _HANDLERS:  # Some characters cannot be encoded.
            stream.reconfigure(errors=_HANDLERS[stream.errors])
    if logging.lastResort:  # the handler of programs that configure no other
        logging.lastResort.setFormatter(_PrintableLines())
    if not debug:
        # TensorFlow raises the errors that it logs.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # By default, TensorFlow enables oneDNN only on newer processors (docs/decisions/onednn.md).
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    try:
        status = _run_until_exit(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        hint = f". {stop} Run the same command again to continue." if str(stop) else ""
        print(f"keras-bert: interrupted{hint}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output, such as `head`, has exited. Python flushes again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        return _report(error)
    return status


def _run_until_exit(arguments):
    try:
        _run(arguments)
    except SystemExit as stop:  # argparse raises this after --help
        return stop.code or 0
    return 0


def _run(arguments):
    command, command_arguments = _split(arguments)
    if command == "help":
        command, command_arguments = _split([*command_arguments, "--help"])
    if command is None:
        _build_overview_parser().parse_args(command_arguments or ["--help"])
        return
    if command in GUESSES["keras-bert COMMAND"] and command not in COMMANDS:
        line = _build_whole_line(GUESSES["keras-bert COMMAND"][command], command_arguments)
        raise InputError(f"there is no command {command!r}; write {line}")
    instance, parser = load(command)
    from keras_bert_impl.cli.common import (
        check_values,
        import_tensorflow_quietly,
    )

    parsed = parse(parser, command_arguments)
    instance.check(parsed)
    check_values(parser, parsed)
    with encoded_as(vars(parsed).get("encoding")):
        instance.check_files(parsed)
    if instance.needs_tensorflow_backend:
        os.environ["KERAS_BACKEND"] = "tensorflow"
    if instance.uses_tensorflow and not parsed.debug:
        import_tensorflow_quietly(alone=instance.tensorflow_alone)
    try:
        with encoded_as(vars(parsed).get("encoding")):
            instance.run(parsed)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(instance.kept.format(**vars(parsed))) from stop


def _build_whole_line(call, arguments):
    """Returns the whole command to write for a command of another name, with its arguments."""
    words = [word for word in call.split() if not (arguments and word.isupper())] + arguments
    try:
        if words[0] in COMMANDS:
            parse(load(words[0])[1], words[1:])
    except InputError as error:
        written = re.search(r"; write (keras-bert .*) \(`", str(error))
        if written:
            return written[1]
    return f"keras-bert {shlex.join(words)}"


def load(command: str) -> tuple[Command, CommandParser]:
    """Imports a command; returns (command, parser of its arguments)."""
    if command in EXAMPLES:
        raise InputError(
            f"{command} is an example, not a command; in a checkout of the repository, run "
            f"`{EXAMPLES[command]}`."
        )
    if command not in COMMANDS:
        hint = suggestion(command, COMMANDS) or "`keras-bert --help` lists them."
        raise InputError(f"there is no command {command!r}; {hint}")
    address, description = COMMANDS[command]
    module, _, name = address.rpartition(".")
    instance = getattr(importlib.import_module(f"keras_bert_impl.cli.{module}"), name)()
    parser = CommandParser(
        prog=f"keras-bert {command}",
        description=f"{description[0].upper()}{description[1:]}.",
        epilog=f"examples:\n{instance.example}",
        add_help=False,
    )
    instance.add_arguments(parser)
    parser.add_common()
    parser.take_words(instance.words, instance.needed)
    return instance, parser


def parse(parser: CommandParser, words: list[str]) -> argparse.Namespace:
    """Parses the arguments of a command. Settings and options may be in any order."""
    end = words.index("--") if "--" in words else len(words)
    typed = [_Word(_replace_underscores(word)) for word in words[:end]]
    # argparse does not know in its second pass which words were after `--`.
    typed += [_Word(re.sub("^-", _DASH, word)) for word in words[end + 1 :]]
    parsed = parser.parse_intermixed_args(typed)
    for name, value in vars(parsed).items():
        if value == "" and value != parser.get_default(name):  # "" would mean the current folder
            parser.error(f"the value of {name} is empty; check that the shell variable is set.")
    parser.complete(parsed, typed)
    for name, value in vars(parsed).items():
        setattr(parsed, name, _restore_dashes(value))
    return parsed


class _Word(str):
    """A word of the command line. Equal words are different objects."""


def _restore_dashes(value):
    if isinstance(value, list):
        return list(map(_restore_dashes, value))
    return value.replace(_DASH, "-") if isinstance(value, str) else value


def _split(arguments):
    """Returns (command or None, remaining arguments)."""
    for position, argument in enumerate(arguments):
        if not argument.startswith("-"):
            return argument, arguments[:position] + arguments[position + 1 :]
    return None, arguments


def _build_overview_parser():
    width = max(map(len, COMMANDS))
    lines = []
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:{width}}  {summary}" for name, (_, summary) in commands.items()]
    parser = CommandParser(
        prog="keras-bert",
        usage="keras-bert COMMAND [arguments]",
        description="BERT for Keras 3: pre-train on your own text, fine-tune, serve raw strings.\n"
        + "\n".join(lines),
        epilog="`keras-bert COMMAND --help` explains a command; `keras-bert doctor` checks the "
        "installation.",
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


def _replace_underscores(argument):
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if argument.startswith("--") else argument


def _report(error):
    """Prints an error on one line to stderr; returns the exit status."""
    if isinstance(error, InputError):
        message, status = str(error), INPUT_ERROR
    elif isinstance(error, MemoryError):
        message, status = "out of memory; try a smaller batch size or a smaller model", INPUT_ERROR
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" to write {error.filename}" if error.filename else ""
        message, status = f"the disk is full: there is no space left{where}", INPUT_ERROR
    elif isinstance(error, OSError) and error.filename:
        message, status = f"{error.filename}: {error.strerror}", INPUT_ERROR
    else:
        text = f"{type(error).__name__}: {error}"
        message, status = f"{text[:500]} (`--debug` shows where)", FAILURE
    print_message(f"keras-bert: {' '.join(message.split())}", sys.stderr)
    return status


# === Completion ===

_SCRIPT = """\
{start}_keras_bert() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" words="" files="" before=""
    [[ $current == "=" ]] && current=""
    [[ $previous == "=" ]] && previous="${{COMP_WORDS[COMP_CWORD-2]}}"
    if [[ $current == *=* ]]; then
        previous="${{current%%=*}}"; before="$previous="; current="${{current#*=}}"
    fi
    if [[ $COMP_CWORD == 1 ]]; then
        words="{commands}"
    else
        case "$command $previous" in
{values}
            *) case "$command" in
{options}
            esac ;;
        esac
    fi
    local IFS=$'\\n'  # names of files may contain spaces
    # The compgen of zsh reads the beginning of the name from PREFIX.
    COMPREPLY=($(IFS=$' \\t\\n'; PREFIX="$current"; compgen $files -P "$before" -W "$words" -- "$current"))
}}
complete -o filenames -F _keras_bert keras-bert
"""
_START = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}
_FILES = {"file": "-f", "recipe": "-f", "directory": "-d", "model": "-d"}


class Completion(Command):
    example = (
        "  keras-bert completion bash > \\\n"
        "      ~/.local/share/bash-completion/completions/keras-bert\n"
        '  eval "$(keras-bert completion zsh)"    # in ~/.zshrc, after compinit'
    )
    uses_tensorflow = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=tuple(_START), help="shell that reads the script")

    def run(self, arguments: argparse.Namespace) -> None:
        print(script(arguments.shell), end="")


def script(shell: str) -> str:
    # (suggested words, options of `compgen`) -> patterns of a shell `case`.
    values: dict[tuple[str, str], list[str]] = {}
    options = {(" ".join(COMMANDS), ""): ["help"]}
    for command in COMMANDS:
        _, parser = load(command)
        names = [name for action in parser._actions for name in action.option_strings]
        words, files = _list_completions(
            next((a for a in parser._actions if not a.option_strings), None)
        )
        line = " ".join([words, *names]).strip()
        options.setdefault((line, files), []).append(command)
        for action in parser._actions:
            if action.option_strings and action.nargs != 0:
                lines = [f'"{command} {name}"' for name in action.option_strings]
                values.setdefault(_list_completions(action), []).extend(lines)
    return _SCRIPT.format(
        start=_START[shell],
        commands=" ".join(["help", *COMMANDS]),
        values=_format_cases(values),
        options=_format_cases(options),
    )


def _format_cases(offers):
    return "\n".join(
        f'            {"|".join(patterns)}) words="{words}"; files="{files}" ;;'
        for (words, files), patterns in offers.items()
    )


def _list_completions(action):
    """Returns the completions of an argument: (words, options of the shell's `compgen`)."""
    if action is None:
        return "", ""
    kind = getattr(action.type, "completes", None)
    words = [str(choice) for choice in action.choices or ()]
    if kind == "model":
        from keras_bert_impl.checkpoints.published import MODELS

        words = list(MODELS)
    if kind == "recipe":
        from keras_bert_impl.pretraining.recipes import recipes

        words = list(recipes())
    return " ".join(words), _FILES.get(kind, "")


if __name__ == "__main__":
    sys.exit(main())

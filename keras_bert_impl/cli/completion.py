"""`keras-bert completion`: prints a script that completes commands in bash and zsh."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.kinds import Kind

EXAMPLE = (
    "  keras-bert completion bash > \\\n"
    "      ~/.local/share/bash-completion/completions/keras-bert\n"
    '  eval "$(keras-bert completion zsh)"    # in ~/.zshrc, after compinit'
)
USES_TENSORFLOW = False
# The words of a line are those of the shell: bash splits at "=", zsh does not.
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
    local IFS=$'\\n'  # a file's name may have spaces; the words of compgen -W are split as usual
    # PREFIX is where the compgen of zsh finds the beginning of a file's name.
    COMPREPLY=($(IFS=$' \\t\\n'; PREFIX="$current"; compgen $files -P "$before" -W "$words" -- "$current"))
}}
complete -o filenames -F _keras_bert keras-bert
"""
_START = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}
_FILES = {"file": "-f", "recipe": "-f", "directory": "-d", "model": "-d"}


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("shell", choices=tuple(_START), help="shell that reads the script")


def run(arguments: Namespace) -> None:
    """Prints the script."""
    print(script(arguments.shell), end="")


def script(shell: str) -> str:
    """Returns the script of a shell, made from the parsers of all commands."""
    from keras_bert_impl.cli.main import COMMANDS, load

    # What is offered, as (words, options of `compgen`) -> where: patterns of a `case`.
    values: dict[tuple[str, str], list[str]] = {}
    options = {(" ".join(COMMANDS), ""): ["help"]}
    for command in COMMANDS:
        _, parser = load(command)
        names = [name for action in parser._actions for name in action.option_strings]
        words, files = _offered(next((a for a in parser._actions if not a.option_strings), None))
        line = " ".join([words, *names]).strip()
        options.setdefault((line, files), []).append(command)
        for action in parser._actions:
            if action.option_strings and action.nargs != 0:
                lines = [f'"{command} {name}"' for name in action.option_strings]
                values.setdefault(_offered(action), []).extend(lines)
    return _SCRIPT.format(
        start=_START[shell],
        commands=" ".join(["help", *COMMANDS]),
        values=_cases(values),
        options=_cases(options),
    )


def _cases(offers):
    return "\n".join(
        f'            {"|".join(patterns)}) words="{words}"; files="{files}" ;;'
        for (words, files), patterns in offers.items()
    )


def _offered(action):
    """Returns (words, options of `compgen`) for the values of an argument."""
    if action is None:
        return "", ""
    kind = action.type.completes if isinstance(action.type, Kind) else None
    words = [str(choice) for choice in action.choices or ()]
    if kind == "model":
        from keras_bert_impl.published import MODELS

        words = list(MODELS)
    if kind == "recipe":
        from keras_bert_impl.pretraining.recipes import recipes

        words = list(recipes())
    return " ".join(words), _FILES.get(kind, "")

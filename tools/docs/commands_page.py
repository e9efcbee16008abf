"""The command reference: every command with all arguments, read from the parsers."""

import argparse

from keras_bert_impl.cli.main import GROUPS, load
from keras_bert_impl.cli.parser import CommandParser, HelpFormatter


def page() -> str:
    """Returns the Markdown of the command reference."""
    parts = [
        "# Commands",
        "Every command with all of its arguments, as `keras-bert COMMAND --help-all` shows them. "
        "Switches are written `--key` or `--no-key`. `keras-bert completion bash` or `zsh` prints a "
        "script for tab completion. [Settings](settings.md) describes each setting in full.",
    ]
    for title, commands in GROUPS.items():
        parts.append(f"## {title[0].upper()}{title[1:]}")
        for command in commands:
            _, parser = load(command)
            parts += [f"### {command}", *section(parser)]
    return "\n\n".join(parts) + "\n"


def section(parser: CommandParser) -> list[str]:
    """Returns the description of a command, its tables of arguments and its examples."""
    usage = parser.format_usage().removeprefix("usage: ").strip()
    parts = [parser.description or "", f"```text\n{usage}\n```"]
    formatter = HelpFormatter(parser.prog)
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if a.help is not argparse.SUPPRESS]
        if actions and group.title:  # otherwise the options are the same for every command
            title = group.title
            table = ["| argument | what it does |", "|---|---|"]
            table += [
                f"| `{_format_cell(_name(formatter, a))}` | {_format_help(formatter, a)} |"
                for a in actions
            ]
            parts += [f"**{title[:1].upper()}{title[1:]}**", group.description or ""]
            parts.append("\n".join(table))
    examples = (parser.epilog or "").partition("\n")[2]
    lines = [line.removeprefix("  ") for line in examples.splitlines()]
    return [part for part in [*parts, "```bash\n" + "\n".join(lines) + "\n```"] if part]


def _name(formatter, action):
    """Returns an argument together with its value, such as `--out DIR`."""
    return formatter._format_action_invocation(action)


def _format_help(formatter, action):
    return _format_cell(formatter._expand_help(action)).replace("<", "&lt;")


def _format_cell(text):
    return " ".join(text.split()).replace("|", "\\|")

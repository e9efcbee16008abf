"""A real zsh on a pseudo-terminal, in which a person types a line and presses Tab."""

import os
import pty
import select
import signal
from pathlib import Path

_LIMIT = 60  # seconds until zsh is taken for dead
_START = """
PS1=; unsetopt prompt_cr prompt_sp zle_bracketed_paste
autoload -U compinit && compinit -u -D
{script}
show() {{ print -r -- "<$BUFFER>" }}
zle -N show; bindkey '^T' show
"""


def completed(script: str, line: str, folder: Path) -> str:
    """Returns what zsh makes of a line when Tab is pressed at its end.

    Args:
        script: the completion script.
        folder: working directory; `.zshrc` is written to it.
    """
    (folder / ".zshrc").write_text(_START.format(script=script))
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        settings = {"ZDOTDIR": str(folder), "TERM": "dumb", "PATH": os.environ["PATH"]}
        os.execvpe("zsh", ["zsh", "-d", "-i"], settings)
    try:
        os.write(terminal, f"{line}\t\x14".encode())
        printed = ""
        while "<" not in printed or ">" not in printed.rpartition("<")[2]:
            ready, _, _ = select.select([terminal], [], [], _LIMIT)
            assert ready, f"zsh prints no more: {printed!r}"
            printed += os.read(terminal, 4096).decode()
        return printed.rpartition("<")[2].partition(">")[0]
    finally:
        os.kill(process, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(process, 0)

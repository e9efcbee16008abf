"""Runs commands and prints each write, rename or removal outside of some folders.

`python audited.py FOLDERS COMMANDS`: folders joined by `:`; a JSON list of lists of arguments. For
each command, a line `END status command`, after a line `OUTSIDE event path` for each violation. A
command `serve` is stopped when it is ready.
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.request

ALLOWED = [os.path.realpath(path) for path in sys.argv[1].split(":")]
# Event -> number of its paths, and the position of the first file descriptor of their folders.
CHANGES = {
    "os.rename": (2, 2),
    "os.link": (2, 2),
    "os.symlink": (2, 2),
    "os.remove": (1, 1),
    "os.rmdir": (1, 1),
    "os.mkdir": (1, 2),
    "os.truncate": (1, None),
    "os.chmod": (1, 2),
    "os.chown": (1, 3),
    "os.utime": (1, 3),
    "os.setxattr": (1, None),
    "shutil.rmtree": (1, 1),
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
saw = threading.local()


def place(path, folder=None):
    """The absolute path, with links in its folder followed."""
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    path = os.fsdecode(path)
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(path):
        path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
    path = os.path.abspath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def changed(event, arguments):
    """The paths that an event writes, or whose entry it changes."""
    if event == "open":
        path, _, flags = arguments
        is_file = isinstance(path, (str, bytes, os.PathLike))
        return [os.path.realpath(place(path))] if is_file and flags & WRITES else []
    count, folder = CHANGES.get(event, (0, None))
    if event == "os.symlink":
        return [place(arguments[1], arguments[2])]
    folders = arguments[folder:] if folder is not None else ()
    folders = [*folders, None, None]
    return [place(path, folders[number]) for number, path in enumerate(arguments[:count])]


def hook(event, arguments):
    if event != "open" and event not in CHANGES or getattr(saw, "inside", False):
        return
    saw.inside = True
    try:
        for path in changed(event, arguments):
            if not any(
                path == folder or path.startswith(f"{folder}/") for folder in (*ALLOWED, "/dev")
            ):
                print(f"OUTSIDE {event} {path}", flush=True)
    finally:
        saw.inside = False


def stop_when_ready(port):
    for _ in range(600):
        time.sleep(0.1)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/export"):
                break
        except OSError:
            continue
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.addaudithook(hook)
    from keras_bert_impl.cli.main import main

    for command in json.loads(sys.argv[2]):
        if command[0] == "serve":
            port = command[command.index("--port") + 1]
            threading.Thread(target=stop_when_ready, args=[port], daemon=True).start()
        try:
            status = main(command)
        except SystemExit as end:
            status = end.code
        print("END", status, " ".join(command), flush=True)

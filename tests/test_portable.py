"""The package imports and calls nothing that only POSIX systems have."""

import ast
from pathlib import Path

import keras_bert_impl

# https://docs.python.org/3/library/: modules and names with "Availability: Unix".
MODULES = set(
    "curses fcntl grp nis ossaudiodev pty pwd posix readline resource spwd syslog termios tty".split()
)
NAMES = {
    "os": set(
        "chown chroot ctermid fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg"
        " getpgid getpgrp getpriority getresuid getsid getuid initgroups killpg lchown major mkfifo"
        " mknod nice pathconf posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev"
        " register_at_fork sched_getaffinity sched_setaffinity sendfile setegid seteuid setgid"
        " setpgid setsid setuid statvfs sync sysconf tcgetpgrp uname wait wait3 wait4 waitid"
        " O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK".split()
    ),
    "signal": set(
        "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 alarm"
        " getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigwait"
        " sigwaitinfo".split()
    ),
    "multiprocessing": {"get_context('fork')"},
}


def found_in(tree):
    """Names of what only POSIX has, except inside `try`, `if` with the platform, or `getattr`."""
    guarded = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        or (isinstance(node, ast.If) and "hasattr" in ast.dump(node.test))
        for inside in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = (node.module or "").split(".")[0]
            names = {alias.name for alias in node.names} & NAMES.get(module, set())
            yield from [module] if module in MODULES else names
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NAMES.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node).endswith("get_context('fork')"):
            yield "get_context('fork')"


def test_the_search_finds_what_it_looks_for():
    text = "import fcntl, os\nfrom signal import SIGKILL\nos.fork()\nimport resource as r\nm.get_context('fork')"
    expected = {"fcntl", "SIGKILL", "resource", "os.fork", "get_context('fork')"}
    assert set(found_in(ast.parse(text))) == expected
    assert not list(found_in(ast.parse("try:\n    import fcntl\nexcept ImportError:\n    pass")))


def test_the_package_has_none():
    package = Path(keras_bert_impl.__file__).parent
    places = {
        str(path.relative_to(package)): names
        for path in sorted(package.rglob("*.py"))
        if (names := list(found_in(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert places == {}

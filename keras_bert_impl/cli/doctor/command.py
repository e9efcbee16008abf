"""`keras-bert doctor`: checks this installation, and says what to do about its problems."""

import sys
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import print_json
from keras_bert_impl.cli.doctor.findings import Problem, Section

EXAMPLE = "  keras-bert doctor\n  keras-bert doctor --online --json"
USES_TENSORFLOW = False  # it is imported in a process of its own, where it may fail


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--online", action="store_true", help="also check that the hubs of models can be reached"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: Namespace) -> None:
    """Prints the report; exits with status 1 if something does not work."""
    from keras_bert_impl.cli.doctor.devices import check_devices
    from keras_bert_impl.cli.doctor.packages import check_packages
    from keras_bert_impl.cli.doctor.surroundings import check_caches, check_hubs, check_variables

    checks = [check_packages, check_devices, check_caches, check_variables]
    checks += [check_hubs] if arguments.online else []
    sections = [section for check in checks for section in _sections_of(check)]
    problems = [problem for section in sections for problem in section.problems]
    if arguments.json:
        report: dict = {section.title: section.facts for section in sections}
        print_json(report | {"problems": [vars(problem) for problem in problems]})
    else:
        _print(sections, problems)
    if any(problem.is_failure for problem in problems):
        sys.exit(1)


def _sections_of(check):
    """Returns the sections of a check; if it fails, one that says so."""
    try:
        found = check()
    except Exception as error:
        what = f"{check.__name__} failed: {type(error).__name__}: {error}"
        found = Section(check.__name__, problems=[Problem(what, "keras-bert doctor --debug")])
    return found if isinstance(found, list) else [found]


def _print(sections, problems):
    for section in sections:
        print(section.title)
        width = max(map(len, section.facts), default=0)
        for name, value in section.facts.items():
            print(f"  {name:{width}}  {value}")
        print()
    print(
        f"{len(problems)} problem{'s' if len(problems) > 1 else ''}" if problems else "no problems"
    )
    for problem in problems:
        print(f"  {'does not work' if problem.is_failure else 'note'}: {problem.what}")
        print(f"    {problem.do}")

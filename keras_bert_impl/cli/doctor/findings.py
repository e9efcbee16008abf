"""What a check of an installation found."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something wrong with an installation.

    Args:
        what: a sentence.
        do: the line to type, or what else to do.
        is_failure: whether something does not work, rather than works less well.
    """

    what: str
    do: str
    is_failure: bool = True


@dataclasses.dataclass
class Section:
    """A part of the report.

    Args:
        title: such as `"packages"`.
        facts: name -> value, as they are printed.
        problems: what is wrong, in order.
    """

    title: str
    facts: dict[str, str] = dataclasses.field(default_factory=dict)
    problems: list[Problem] = dataclasses.field(default_factory=list)

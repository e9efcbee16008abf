"""What a package index shows: the description of setup.cfg."""

import configparser
import re
from pathlib import Path

from tests.docs import blocks

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = (ROOT / "DESCRIPTION.md").read_text(encoding="utf-8")
METADATA = configparser.ConfigParser()
METADATA.read(ROOT / "setup.cfg", encoding="utf-8")


def test_the_description_is_the_file_for_indexes():
    assert METADATA["metadata"]["long_description"] == "file: DESCRIPTION.md"
    assert METADATA["metadata"]["long_description_content_type"] == "text/markdown"


def test_links_are_absolute():
    targets = re.findall(r"\]\(([^)]+)\)", DESCRIPTION)
    assert [target for target in targets if not target.startswith("https://")] == []
    assert [target for target in re.findall(r"\]\(([^)]+)\)", "[a](docs/b.md)")] == ["docs/b.md"]


def test_python_and_commands_name_what_exists():
    for _, source in blocks.blocks(DESCRIPTION, "python"):
        assert blocks.check_python(source, {}) == []
    commands = [c for _, b in blocks.blocks(DESCRIPTION, "bash") for c in blocks.commands(b)]
    assert {words[0] for words in commands} == {"finetune", "predict", "export", "serve"}
    for words in commands:
        blocks.check_command(words)

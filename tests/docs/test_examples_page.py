"""The generated pages of the examples."""

from pathlib import Path

import examples_page
import links
import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_each_script_has_a_page_in_the_navigation_and_in_the_list():
    pages = examples_page.pages()
    assert len(pages) == 10
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    group = yaml.safe_load(navigation)["nav"][0]["Get started"]
    listed = next(part["Examples"] for part in group if "Examples" in part)
    assert sorted(listed) == sorted(["examples.md", *pages])
    table = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    for path in pages:
        assert f"({path})" in links.to_pages(table)


def test_a_page_has_the_docstring_as_text_and_the_rest_as_code():
    page = examples_page.pages()["examples/lora.md"]
    assert page.startswith("# LoRA: fine-tune 1% of the weights\n\nLoRA adds two rank-4 matrices")
    assert '"""LoRA' not in page
    assert "\n```python\nimport math\n" in page and page.endswith("    main()\n```\n")

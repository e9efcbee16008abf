"""Pages in a real browser: scripts run, payloads do not, and nothing is wider than a phone."""

import re
import shutil
import subprocess

import pytest

from keras_bert_impl import load_tuned, look, write_report
from tests.reports.conftest import PAYLOADS

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --virtual-time-budget=2000"
).split()


@pytest.fixture
def dom(tmp_path):
    """A function that opens a page and returns its document after its scripts have run."""

    def opened(page, width=1280):
        folder = tmp_path / f"browser{width}{page.stem}"
        size = f"--window-size={width},900"
        command = [
            CHROMIUM,
            *OPTIONS,
            size,
            f"--user-data-dir={folder}",
            "--dump-dom",
            page.as_uri(),
        ]
        process = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout

    return opened


def with_script(page, code):
    """Writes a copy of a page that allows any script and runs one more."""
    html = re.sub(r"<meta http-equiv=.*?>", "", page.read_text(encoding="utf-8"))
    copy = page.with_name(f"{page.stem}-measured.html")
    copy.write_text(html.replace("</body>", f"<script>{code}</script></body>"), encoding="utf-8")
    return copy


# The elements that reach beyond the window, but for the contents of those that scroll.
_WIDE = """
document.body.style.width = "360px";
const wide = [...document.querySelectorAll("body *")].filter((e) =>
  e.getBoundingClientRect().right > 361 && !e.closest(".scroll, pre, figure, .skip"));
document.title = `wide: ${wide.map((e) => e.outerHTML.slice(0, 60)).join(" ; ")}.`;
"""


def title(html):
    return re.search(r"<title>(.*?)</title>", html, re.DOTALL)[1]


def test_a_report_of_hostile_texts(run, dev, dom, tmp_path):
    page = write_report(run, examples=dev, path=tmp_path / "report.html")
    html = dom(page)
    assert title(html) == "Text classification: &lt;dev&gt;.csv"
    assert html.count(">Copy</button>") == 3 and 'id="broken"' not in html
    # Even without the policy, no text is an element or a script.
    html = dom(with_script(page, _WIDE), 500)
    assert title(html) == "wide: ."


def test_a_look_is_interactive(run, dom, tmp_path):
    page = look(load_tuned(run), " ".join(PAYLOADS[:3]), tmp_path / "look.html")
    html = dom(page)
    assert title(html) == "Attention and attributions" and 'id="broken"' not in html
    assert re.search(r'id="said"[^>]*>\[CLS\] attends to: \S+ 0\.\d\d', html)
    assert html.count("layer 1, head 2") == 2  # a label and a hint
    keys = """
    const tokens = document.getElementById("tokens");
    tokens.dispatchEvent(new KeyboardEvent("keydown", {key: "End"}));
    view.value = "rollout"; view.dispatchEvent(new Event("change"));
    document.title = said.textContent.split(":")[0] + document.activeElement.textContent;"""
    assert title(dom(with_script(page, keys))) == "[SEP] attends to[SEP]"
    assert title(dom(with_script(page, _WIDE), 500)) == "wide: ."

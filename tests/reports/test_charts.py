"""Pictures as SVG and PNG, and the escaping of text in them."""

import re
import struct
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from keras_bert_impl.reports import charts, page
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.version import install_command

HOSTILE = "<script>alert(1)</script> & \"q\" 'q' \x00\x1b\ud800 \u202e\u05d0 🎬 $x_1$"


def curve(label=HOSTILE):
    series = [charts.Series(label, [0, 10, 20], [1.0, float("nan"), 0.25])]
    return charts.curves("loss", f"Loss {label}", series, charts.Axis("steps"), charts.Axis(label))


@pytest.mark.parametrize("is_file", [False, True])
def test_svg_is_xml_with_the_text_as_text(is_file):
    tree = ElementTree.fromstring(curve().svg(is_file))
    texts = [element.text for element in tree.iter() if element.tag.endswith("text")]
    assert any("<script>" in text for text in texts)
    assert not [element for element in tree.iter() if element.tag.endswith("script")]
    assert tree.get("aria-label").startswith("Loss <script>")


def test_points_that_are_not_finite_are_left_out():
    tree = ElementTree.fromstring(curve("a").svg())
    line = next(
        e
        for e in tree.iter("polyline")
        if e.get("class") == "l-s0" and e.get("stroke-width") == "2"
    )
    assert len(line.get("points").split()) == 2


def test_a_logarithmic_axis_places_equal_factors_at_equal_distances():
    xs, ys = [8, 32, 128], [0.5, 0.6, 0.7]
    series = charts.Series("a", xs, ys, bounds=[(0.2, 0.8)] * 3)
    axis = charts.Axis("size", is_logarithmic=True)
    drawing = charts.curves("c", "c", [series], axis, charts.Axis("score"))
    tree = ElementTree.fromstring(drawing.svg())
    places = [float(circle.get("cx")) for circle in tree.iter("circle")]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)
    texts = [element.text for element in tree.iter("text")]
    assert {"8", "32", "128"} < set(texts)
    whiskers = [e for e in tree.iter("polyline") if e.get("class") == "l-s0"][1:]
    assert len(whiskers) == 4  # three intervals and the legend


def test_places_follow_the_axes():
    drawing = charts.points(
        "p",
        "p",
        [charts.Series("", [0, 1], [0, 1])],
        charts.Axis("", (0, 1)),
        charts.Axis("", (0, 1)),
    )
    circles = list(ElementTree.fromstring(drawing.svg()).iter("circle"))
    (left, low), (right, high) = ((float(c.get("cx")), float(c.get("cy"))) for c in circles)
    assert (left, right) == (52, 340 - 14) and (high, low) == (42, 240 - 44)


def test_png_has_the_size_of_the_drawing(tmp_path):
    curve().save_png(tmp_path / "a.png", dots_per_pixel=2)
    head = (tmp_path / "a.png").read_bytes()[:24]
    assert struct.unpack(">II", head[16:24]) == (680, 480)


def test_png_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=re.escape(install_command("plots"))):
        curve().save_png(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_matrix_shades_the_share_of_the_row():
    tree = ElementTree.fromstring(
        charts.matrix("m", "m", ["a", "b"], np.array([[3, 1], [0, 0]])).svg()
    )
    shades = [e.get("fill-opacity") for e in tree.iter("rect") if e.get("class") != "f-grid"]
    assert shades == ["0.413", "0.138", "0", "0"]


@pytest.mark.parametrize("limits", [None, (0, 1)])
@pytest.mark.parametrize("values", [[], [5.0], [0.0, 0.0], [-1e-9, 1e9], [1e-7, 2e-7]])
def test_any_range_has_ticks(values, limits):
    axis = charts.Axis("", limits)
    series = [charts.Series("", values, values)]
    svg = charts.curves("c", "c", series, axis, axis).svg()
    assert "nan" not in svg and 6 < svg.count("<text") < 20


def test_escaping():
    assert "<" not in page.escape(HOSTILE).replace("&lt;", "")
    assert page.escape("a\x00b\ud800") == "a\ufffdb\ufffd"
    assert page.script_json({"a": "</script><!--&\x00"}) == (
        '{"a":"\\u003c/script>\\u003c!--\\u0026\\ufffd"}'
    )
    long = page.user_text("é" * 10_000)
    assert long.count("é") == 600 and "10,000 characters" in long


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (12345, "12,345"), (0.83123, "0.8312"), (1e-5, "1e-05"), (True, "True"),
     (2000.0, "2,000"), (float("nan"), "nan"), (float("inf"), "inf"), ("x", "x")],
)  # fmt: skip
def test_numbers(value, text):
    assert page.number(value) == text

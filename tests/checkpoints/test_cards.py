"""Model cards: what they say, and that a user's own card is kept."""

import importlib
import json
import re

import pytest
import yaml
from markdown_it import MarkdownIt

from keras_bert_impl import Adapter, MaskedLM, save_tuned
from keras_bert_impl.checkpoints.cards import (
    as_text,
    front_matter,
    model_card,
    published_base,
    write_card,
)
from keras_bert_impl.tokenizers import ByteLevelBPETokenizer
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters
from tests.tasks import helpers


def header(text):
    """The front matter of a card, as the hub reads it."""
    return yaml.safe_load(text.split("---\n")[1])


def test_says_what_the_model_is_and_how_to_load_it(tmp_path):
    helpers.classifier().save_pretrained(tmp_path / "reviews")
    card = (tmp_path / "reviews" / "README.md").read_text()
    assert header(card) == {
        "library_name": "keras",
        "pipeline_tag": "text-classification",
        "tags": ["keras", "tensorflow", "bert"],
    }
    assert "# reviews\n" in card and "`negative`, `positive`" in card and "3,376 param" in card
    assert "Unknown: it depends on the base model and on the data" in card


def test_the_code_of_a_card_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = helpers.classifier()
    model.save_pretrained("reviews")
    code = (tmp_path / "reviews" / "README.md").read_text().split("```")[1]
    names = {}
    exec(code.removeprefix("python\n"), names)
    assert (helpers.weights(names["model"]) == helpers.weights(model)).all()


def test_the_code_of_a_masked_model_has_its_mask_token(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters(), "<mask>"]
    MaskedLM(
        helpers.encoder(vocabulary_size=len(tokens)), ByteLevelBPETokenizer(tokens, [])
    ).save_pretrained("filler")
    code = (tmp_path / "filler" / "README.md").read_text().split("```")[1]
    assert "This is a <mask>." in code
    exec(code.removeprefix("python\n"), {})
    assert "score" in capsys.readouterr().out


def test_the_same_model_has_the_same_card(tmp_path):
    model = helpers.classifier()
    for folder in ("one", "two"):
        model.save_pretrained(tmp_path / folder / "reviews")
    first, second = (
        (tmp_path / name / "reviews" / "README.md").read_bytes() for name in ("one", "two")
    )
    assert first == second


def test_names_the_base_and_its_license(tmp_path):
    # As in the cache of the hub.
    base = helpers.save_base(tmp_path / "models--ProsusAI--finbert" / "snapshots" / ("0" * 40))
    model = helpers.classifier().from_pretrained(
        base, labels=["a", "b"], adapter=Adapter("lora", size=2)
    )
    save_tuned(model, tmp_path / "tuned", base)
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert header(card)["base_model"] == "ProsusAI/finbert"
    assert header(card)["license"] == "apache-2.0"
    assert "The weights of finbert were published under Apache-2.0." in card


def test_shows_scores_data_and_settings_of_a_run(tmp_path):
    (tmp_path / "scores.json").write_text('{"accuracy": 0.75}')
    (tmp_path / "data.json").write_text('{"train": {"examples": 1200, "source": "train.csv"}}')
    (tmp_path / "recipe.yaml").write_text("model: hf://google-bert/bert-base-uncased\nseed: 1\n")
    model = helpers.classifier()
    card = model_card(model, "reviews", run=tmp_path)
    assert "| accuracy | 0.75 |" in card
    assert '- train: 1,200 examples of "train.csv"' in card
    assert "```yaml\nmodel: hf://google-bert/bert-base-uncased\nseed: 1\n```" in card
    assert "base_model: google-bert/bert-base-uncased" in front_matter(model, run=tmp_path)


def test_a_card_that_nobody_edited_is_rewritten(tmp_path):
    helpers.classifier(labels=("a", "b")).save_pretrained(tmp_path)
    helpers.classifier(labels=("c", "d")).save_pretrained(tmp_path)
    assert "`c`, `d`" in (tmp_path / "README.md").read_text()


def test_a_card_of_the_user_is_kept(tmp_path):
    model = helpers.classifier()
    model.save_pretrained(tmp_path / "edited")
    card = tmp_path / "edited" / "README.md"
    edited = card.read_text().replace("## Limits", "## Limits\n\nNot for medical texts.")
    for text in (edited, edited.split("<!--")[0], "My notes.\n", "", "<!-- \n"):
        card.write_text(text)
        model.save_pretrained(tmp_path / "edited")
        assert card.read_text() == text
    card.write_bytes(b"\xff\xfe")
    write_card(model, card.parent, card.parent)
    assert card.read_bytes() == b"\xff\xfe"


@pytest.mark.slow
def test_an_edited_card_of_an_export_is_kept(tmp_path):
    model = helpers.classifier()
    model.export(tmp_path / "exported")
    card = tmp_path / "exported" / "README.md"
    text = card.read_text()
    assert header(text)["pipeline_tag"] == "text-classification"
    assert '["serving_default"](text=tf.constant(["a text"])))' in text
    card.write_text(text + "Ours.\n")
    model.export(tmp_path / "exported")
    assert card.read_text() == text + "Ours.\n"


def test_encoders_have_a_card(tmp_path):
    helpers.save_base(tmp_path / "base")
    card = (tmp_path / "base" / "README.md").read_text()
    assert header(card)["pipeline_tag"] == "feature-extraction"
    assert 'Encoder.from_pretrained("base")' in card


def test_the_card_of_a_set_has_the_scores_of_its_best_run(tmp_path):
    (tmp_path / "runs" / "seed=1").mkdir(parents=True)
    (tmp_path / "runs" / "seed=1" / "scores.json").write_text('{"accuracy": 0.5, "f1": NaN}')
    summary = '{"metric": "accuracy", "best": "runs/seed=1", "groups": []}'
    (tmp_path / "scores.json").write_text(summary)
    card = model_card(helpers.classifier(), "reviews", run=tmp_path)
    assert "| accuracy | 0.5 |" in card and "| f1 | not defined |" in card


@pytest.mark.parametrize(
    "base, published",
    [
        ("bert-base-uncased", "bert-base-uncased"),
        ("google-bert/bert-base-uncased", "bert-base-uncased"),
        ("hf://google-bert/bert-base-uncased@main", "bert-base-uncased"),
        ("/c/models--google-bert--bert-base-uncased/snapshots/0a1b", "bert-base-uncased"),
        ("./mine/bert-base-uncased", None),
        ("/models/bert-base-uncased", None),
        ("runs@bert-base-uncased", None),
        ("mine--bert-base-uncased", None),
        ("hf://someone/bert-base-uncased", None),
        ("someone/bert-base-uncased", None),
        ("/c/models--someone--bert-base-uncased/snapshots/0a1b", None),
        ("kaggle://someone/bert/keras/bert-base-uncased", None),
        (None, None),
    ],
)
def test_only_an_address_on_the_hub_names_the_base(base, published):
    assert published_base(base) == published


def test_a_directory_comes_before_a_published_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert-base-uncased").mkdir()
    assert published_base("bert-base-uncased") is None
    assert published_base("hf://google-bert/bert-base-uncased") == "bert-base-uncased"


def test_plain_names_stay_as_they_are():
    assert as_text("macro_f1 of train-v1.csv") == "macro_f1 of train-v1.csv"
    assert as_text("_a_ *b*|c") == r"\_a\_ \*b\*\|c"


HOSTILE = [
    "good\n---\nlicense: mit\n---",
    "a | b",
    "`code` and ``more``",
    "`",
    " ",
    "<script>alert(1)</script>",
    "# heading: [link](http://x) **bold** &amp;",
    "\u202eright to left\u2028\ud800\x1b[31m",
]


def test_labels_and_names_cannot_break_a_card(tmp_path):
    model = helpers.classifier(labels=HOSTILE)
    run = tmp_path / "run"
    run.mkdir()
    name = "<img src=x> | `x`\n# y"
    (run / "scores.json").write_text(json.dumps({"a|b\n<b>/accuracy": 0.75}))
    (run / "data.json").write_text(
        json.dumps({"<i>": {"examples": 3, "source": "<u>\n```\n# x.csv"}})
    )
    (run / "recipe.yaml").write_text("model: |\n  x\n  ```\n  # heading\n")
    text = model_card(model, name, run=run)
    assert header(text) == {
        "library_name": "keras",
        "pipeline_tag": "text-classification",
        "tags": ["keras", "tensorflow", "bert"],
    }
    text.encode()  # no lone surrogates
    html = MarkdownIt("commonmark").enable("table").render(text.split("---\n", 2)[2])
    for tag in ("script", "img", "b", "i", "u", "a", "strong"):
        assert not re.search(f"<{tag}[ >]", html), tag
    titles = re.findall("<h[12]>(.*?)</h", html)
    assert titles[1:] == ["Use", "Labels", "Scores", "Data", "Settings", "License", "Limits"]
    assert len(re.findall("<tr>", html)) == 2
    for fragment in ("<code>a | b</code>", "`code` and ``more``", "&lt;script&gt;alert(1)"):
        assert fragment in html


def test_a_class_of_another_module_is_imported_from_there(tmp_path, monkeypatch):
    (tmp_path / "praising.py").write_text(
        "from keras_bert_impl import TextClassifier\nclass Praise(TextClassifier):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    praise = importlib.import_module("praising").Praise
    model = praise(helpers.encoder(), helpers.tokenizer(), labels=["a", "b"])
    model.save_pretrained("reviews")
    text = (tmp_path / "reviews" / "README.md").read_text()
    assert header(text)["pipeline_tag"] == "text-classification"
    names = {}
    exec(text.split("```")[1].removeprefix("python\n"), names)
    assert type(names["model"]) is praise

    class Local(praise):
        pass

    text = model_card(Local(helpers.encoder(), helpers.tokenizer(), labels=["a", "b"]), "x")
    assert "# Local is defined in the program that saved this model. Import Local here." in text

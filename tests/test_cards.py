"""Model cards: what they say, and that a user's own card is kept."""

import pytest
import yaml

from keras_bert_impl import Adapter, MaskedLM, save_tuned
from keras_bert_impl.cards import front_matter, model_card, write_card
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
    assert "Not known: it depends on the model that this one began as" in card


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
    one, two = ((tmp_path / name / "reviews" / "README.md").read_bytes() for name in ("one", "two"))
    assert one == two


def test_names_the_base_and_its_license(tmp_path):
    helpers.save_base(tmp_path / "finbert")  # in the table of published models by this name
    model = helpers.classifier().from_pretrained(
        tmp_path / "finbert", labels=["a", "b"], adapter=Adapter("lora", size=2)
    )
    save_tuned(model, tmp_path / "tuned", tmp_path / "finbert")
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

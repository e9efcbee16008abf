"""Generation and perplexity of causal language models beside `transformers`."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.cli.main import main
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.runs.run import load_tuned
from keras_bert_impl.tasks import CausalLM, MaskedLM
from keras_bert_impl.tasks.language_modeling.sampling import Sampling
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.helpers import MODERN, randomize
from tests.tasks.helpers import encoder, examples, tokenizer, weights
from tests.tokenizers.kinds import ENGLISH, learn_gpt2

TEXTS = examples(count=100)[0]
SIZE = tokenizer().vocabulary_size


def causal(**overrides):
    model = CausalLM(encoder(dropout=0.0, use_pooler=False, causal=True, **overrides), tokenizer())
    randomize(model, scale=0.5)
    return model


@pytest.fixture(scope="module")
def model():
    return causal(num_layers=2)


@pytest.fixture(scope="module")
def theirs(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    peer = transformers.AutoModelForCausalLM.from_pretrained(path).double().eval()
    assert type(peer).__name__ == "BertLMHeadModel"
    return peer


def prompt(text):
    """The ids of a prompt: [CLS] and the words."""
    return [tokenizer().cls_id, *tokenizer().tokenize([text])[0].numpy().tolist()]


def generated(theirs, prompts, end, count):
    """The new ids that `transformers` generates, for prompts in batches of one length."""
    ids_by_place = {}
    for length in {*map(len, prompts)}:
        places = [place for place, ids in enumerate(prompts) if len(ids) == length]
        ids = torch.tensor([prompts[place] for place in places])
        settings = {"do_sample": False, "pad_token_id": end, "eos_token_id": end}
        whole = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, **settings
        )
        for place, row in zip(places, whole[:, length:].tolist(), strict=True):
            ids_by_place[place] = row[: row.index(end)] if end in row else row
    return [ids_by_place[place] for place in range(len(prompts))]


def test_greedy_equals_transformers(model, theirs):
    texts = TEXTS[:40]
    outputs = model.generate(texts, max_new_tokens=12, stop="[MASK]")
    expected = generated(theirs, [prompt(text) for text in texts], tokenizer().mask_id, 12)
    assert [output.token_ids for output in outputs] == expected
    assert len({tuple(ids) for ids in expected}) > 20  # The prompts matter.
    lengths = {len(ids) for ids in expected}
    assert 12 in lengths and len(lengths) > 3  # Some texts end earlier.
    assert [output.is_finished for output in outputs] == [len(ids) < 12 for ids in expected]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A GPT-2 and tokenizer of `transformers`, and the directory of their files."""
    path = tmp_path_factory.mktemp("gpt2")
    tokenizer = learn_gpt2(path)
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"), tokenizer.eos_token_id)
    config = transformers.GPT2Config(vocab_size=len(tokenizer), **sizes, **ends)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn(weight.shape)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return model, tokenizer, path


def test_gpt2_equals_transformers_for_100_prompts(gpt2, tmp_path):
    theirs, their_tokenizer, path = gpt2
    words = ENGLISH.split()
    texts = [" ".join(words[i % 30 : i % 30 + 1 + i // 30]) for i in range(100)]
    prompts = their_tokenizer(texts)["input_ids"]
    expected = generated(theirs.double(), prompts, their_tokenizer.eos_token_id, 10)
    assert len({tuple(ids) for ids in expected}) > 90
    model = CausalLM.from_pretrained(path)
    outputs = model.generate(texts, max_new_tokens=10)
    assert [output.token_ids for output in outputs] == expected
    wholes = their_tokenizer.batch_decode([a + b for a, b in zip(prompts, expected, strict=True)])
    assert [text + output.text for text, output in zip(texts, outputs, strict=True)] == wholes
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(again) is transformers.GPT2LMHeadModel
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor.float()), name
    assert again.config.eos_token_id == their_tokenizer.eos_token_id
    again_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert again_tokenizer(texts)["input_ids"] == prompts


def test_gpt2_continues_an_empty_text_from_its_start_token(gpt2):
    theirs, their_tokenizer, path = gpt2
    end = their_tokenizer.eos_token_id
    model = CausalLM.from_pretrained(path)
    (expected,) = generated(theirs.double(), [[end]], end, 10)
    assert expected and model.generate("", max_new_tokens=10).token_ids == expected
    longer = model.generate(["", "It's a test"], max_new_tokens=10)
    assert longer[0].token_ids == expected
    assert longer[1] == model.generate("It's a test", max_new_tokens=10)
    # Batches have texts of similar length: here, one has only empty texts.
    assert model.perplexity([""] * 40 + ["It's a test"]).num_tokens.tolist() == [0] * 40 + [3]


def test_gpt2_stops_at_strings_of_one_token(gpt2):
    _, their_tokenizer, path = gpt2
    model = CausalLM.from_pretrained(path)
    outputs = model.generate(ENGLISH.split(), max_new_tokens=3)
    words = [their_tokenizer.decode([token]) for output in outputs for token in output.token_ids]
    word = next(word for word in words if word.startswith(" "))
    assert word not in model.tokenizer.vocabulary  # The vocabulary has "Ġ" for a space.
    (token,) = their_tokenizer.encode(word)
    for plain, stopped in zip(
        outputs, model.generate(ENGLISH.split(), max_new_tokens=3, stop=word)
    ):
        assert stopped.is_finished == (token in plain.token_ids)
        assert token not in stopped.token_ids
    assert any(token in output.token_ids for output in outputs)
    with pytest.raises(InputError, match="the vocabulary lacks 'It is over'"):
        model.generate("It's a test", stop="It is over")


def test_gpt2_perplexity_equals_transformers(gpt2):
    theirs, their_tokenizer, path = gpt2
    texts = ["It's a test of what", "numbers and quotes"]
    sums, counts = [], []
    for text in texts:
        ids = their_tokenizer(text, return_tensors="pt")["input_ids"]
        counts.append(ids.shape[1] - 1)
        with torch.no_grad():
            sums.append(-theirs.double()(input_ids=ids, labels=ids).loss.item() * counts[-1])
    received = CausalLM.from_pretrained(path).perplexity(texts)
    np.testing.assert_allclose(received.log_likelihoods, sums, rtol=1e-5)
    assert received.perplexity == pytest.approx(np.exp(-sum(sums) / sum(counts)), rel=1e-5)


def test_gpt2_trains_without_an_output_bias(gpt2, tmp_path):
    model = CausalLM.from_pretrained(gpt2[2])
    model.compile(AdamW(1e-3))
    texts = ["It's a test", "numbers and quotes"]
    model.fit(texts, epochs=2, verbose=0)
    assert not [weight for weight in model.weights if "output_bias" in weight.path]
    model.save_pretrained(tmp_path)
    np.testing.assert_array_equal(weights(CausalLM.from_pretrained(tmp_path)), weights(model))
    with pytest.raises(InputError, match="CausalLM.from_pretrained"):
        MaskedLM.from_pretrained(gpt2[2])


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert", "albert", "prefix"])
def test_the_cache_does_not_change_the_tokens(kind):
    changes = {
        "bert": {},
        "roberta": {"architecture": "roberta", "position_offset": 1, "pad_token_id": 0},
        "albert": {"architecture": "albert", "num_layers": 3, "num_layer_groups": 1},
        "prefix": {"adapter": Adapter("prefix", size=3)},
    }
    if kind == "modernbert":  # Some layers attend to two earlier tokens.
        config = dataclasses.replace(MODERN, vocabulary_size=SIZE, max_length=32, causal=True)
        model = CausalLM(Encoder(config), tokenizer())
        randomize(model, scale=0.3)
    else:
        model = causal(**changes[kind])
    texts = TEXTS[:6]
    for text, output in zip(texts, model.generate(texts, max_new_tokens=10, stop=[]), strict=True):
        ids = prompt(text)
        assert len(output.token_ids) == 10
        for token in output.token_ids:
            logits = model({"token_ids": np.array([ids]), "padding_mask": np.ones([1, len(ids)])})
            assert int(np.argmax(logits[0, -1])) == token
            ids.append(token)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(0.7, None, None), (1.0, 5, None), (1.3, None, 0.6), (0.8, 7, 0.9), (1.0, 1000, 1.0)],
)
def test_probabilities_equal_the_processors_of_transformers(temperature, top_k, top_p):
    logits = np.random.default_rng(0).normal(scale=2.0, size=(50, 40)).astype("float32")
    logits[:, 7] = logits[:, 11]  # Equal logits share their probability, or are cut by the order.
    processors = [transformers.TemperatureLogitsWarper(temperature)]
    processors += [transformers.TopKLogitsWarper(top_k)] if top_k else []
    processors += [transformers.TopPLogitsWarper(top_p)] if top_p else []
    scores = torch.tensor(logits, dtype=torch.float64)
    for processor in processors:
        scores = processor(None, scores)
    expected = torch.softmax(scores, -1).numpy()
    received = Sampling(temperature, top_k, top_p).probabilities(logits)
    np.testing.assert_array_equal(np.sort(received > 0), np.sort(expected > 0))
    np.testing.assert_allclose(np.sort(received), np.sort(expected), atol=1e-12)


def test_draws_have_the_probabilities():
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]]))
    sampling = Sampling(1.0, top_p=0.9, seed=3)
    drawn = sampling.choose(np.tile(logits, (4000, 1)), list(range(4000)), 0)
    shares = np.bincount(drawn, minlength=4) / 4000
    # Five standard deviations of a share are below 0.04.
    np.testing.assert_allclose(shares, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0], atol=0.04)


def test_draws_depend_on_seed_text_and_step_only(model):
    settings = {"max_new_tokens": 8, "temperature": 1.0, "stop": []}
    outputs = model.generate(TEXTS[:40], seed=1, **settings)
    assert outputs == model.generate(TEXTS[:40], seed=1, **settings)
    assert outputs[:3] == model.generate(TEXTS[:3], seed=1, **settings)
    assert outputs != model.generate(TEXTS[:40], seed=2, **settings)
    same = model.generate([TEXTS[0]] * 5, **settings)
    assert len({tuple(output.token_ids) for output in same}) == 5


def test_stop_tokens_and_text(model):
    (plain,) = model.generate(TEXTS[:1], max_new_tokens=8, stop=[])
    words = plain.text.split()
    place = next(i for i, word in enumerate(words) if word in tokenizer().vocabulary)
    stopped = model.generate(TEXTS[0], max_new_tokens=8, stop=[words[place]])
    assert stopped.is_finished and stopped.token_ids == plain.token_ids[:place]
    assert plain.text.startswith(" ")  # It continues the prompt.
    assert model.generate([]) == []


def test_perplexity_equals_transformers(model, theirs):
    texts = [*TEXTS[:20], ""]
    received = model.perplexity(texts)
    sums = []
    for text in texts:
        ids = torch.tensor([[*prompt(text), tokenizer().sep_id]])
        with torch.no_grad():
            sums.append(-theirs(input_ids=ids, labels=ids).loss.item() * (ids.shape[1] - 1))
    np.testing.assert_allclose(received.log_likelihoods, sums, rtol=1e-5)
    counts = [len(prompt(text)) for text in texts]
    assert received.num_tokens.tolist() == counts
    assert received.perplexity == pytest.approx(np.exp(-sum(sums) / sum(counts)), rel=1e-5)


def test_learns_texts_and_round_trips_through_files(tmp_path):
    texts = ["good great joy film", "bad awful dull plot"] * 20
    model = CausalLM(encoder(dropout=0.0, use_pooler=False, causal=True), tokenizer())
    model.compile(AdamW(1e-2), seed=1)
    history = model.fit(texts, batch_size=8, epochs=12, validation_data=texts[:2], verbose=0)
    # Only the first of five predicted tokens is open: log 2 / 5 = 0.14.
    assert history.history["loss"][-1] < 0.2 < 2 < history.history["loss"][0]
    assert model.generate("good").text == " great joy film"
    # The loss of `evaluate` is the mean over the same tokens.
    loss = model.evaluate(texts[:2], verbose=0)[0]
    assert np.log(model.perplexity(texts[:2]).perplexity) == pytest.approx(loss, rel=1e-5)
    model.save_pretrained(tmp_path / "model")
    model.save(tmp_path / "model.keras")
    for loaded in (
        load_tuned(tmp_path / "model"),
        keras.models.load_model(tmp_path / "model.keras"),
    ):
        assert type(loaded) is CausalLM
        np.testing.assert_array_equal(weights(loaded), weights(model))
        assert loaded.generate("bad") == model.generate("bad")


def test_command(gpt2, capsys):
    words = ["It's a test", "numbers and"]
    settings = {"max_new_tokens": 5, "temperature": 0.9, "top_k": 9, "top_p": 0.9, "seed": 4}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    assert main(["generate", str(gpt2[2]), *words, *options, "--stop=a", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = CausalLM.from_pretrained(gpt2[2]).generate(words, stop=["a"], **settings)
    assert printed == [
        {"prompt": text, **dataclasses.asdict(output)} for text, output in zip(words, expected)
    ]
    assert main(["generate", "--model", str(gpt2[2]), "It's", "--max-new-tokens=3"]) == 0
    assert capsys.readouterr().out.startswith("It's")
    assert main(["generate", str(gpt2[2])]) == 2
    assert "text is missing; write keras-bert generate" in capsys.readouterr().err


def test_rejects_invalid_input(model, tmp_path):
    with pytest.raises(InputError, match="needs a causal"):
        CausalLM(encoder(), tokenizer())
    with pytest.raises(InputError, match="prompt adapters"):
        causal(adapter=Adapter("prompt", size=2))
    with pytest.raises(InputError, match="CausalLM.from_pretrained"):
        MaskedLM(model.encoder, tokenizer())
    with pytest.raises(InputError, match="at temperature 0"):
        model.generate("good", top_k=3)
    with pytest.raises(InputError, match="top_p must be a number"):
        model.generate("good", temperature=1.0, top_p=1.5)
    with pytest.raises(
        InputError, match="text 1 has 2 tokens .* 31 new tokens, .* maximum of the model is 32"
    ):
        model.generate(["", "good"], max_new_tokens=31)
    with pytest.raises(InputError, match="Text 0 is a pair"):
        model.generate([("good", "bad")])
    with pytest.raises(InputError, match="the vocabulary lacks 'zebra'"):
        model.generate("good", stop=["zebra"])
    with pytest.raises(InputError, match="stop must be a list of values, each a string"):
        model.generate("good", stop=1)
    with pytest.raises(InputError, match=r"write max_new_tokens=20"):
        model.generate("good", max_length=20)
    with pytest.raises(InputError, match="model.generate"):
        model.predict(TEXTS)
    with pytest.raises(InputError, match="cannot be exported"):
        model.export(tmp_path / "export")
    with pytest.raises(InputError, match="cannot be exported"):
        model.signatures()
    with pytest.raises(InputError, match="no tokens to predict"):
        model.perplexity([])
    with pytest.raises(InputError, match="text 0 has 33 tokens"):
        model.perplexity(["good " * 31])
    broken = causal()
    broken.encoder.embeddings.token_embeddings.assign(np.full((SIZE, 16), np.nan))
    with pytest.raises(InputError, match="scores of text 0 are NaN"):
        broken.generate("good")

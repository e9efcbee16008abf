"""Files for containers."""

import pytest
import yaml

from keras_bert_impl.cli.main import main
from keras_bert_impl.serving.deployment import write_deployment
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.version import pinned_requirement


@pytest.fixture
def folder(tmp_path):
    """A directory in the form of an export, with characters that YAML and Compose treat."""
    folder = tmp_path / 'my "tickets" for $5: all' / "reviews"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "saved_model.pb").touch()
    (folder / "batching_parameters.txt").touch()
    return folder


def test_the_files_name_the_model_and_its_folder(folder, tmp_path, capsys):
    out = tmp_path / "deploy"
    assert main(["serve", str(folder), "--write-docker", str(out)]) == 0
    written = capsys.readouterr().out.splitlines()
    assert written[-1] == f'docker compose -f "{out}/compose.yaml" up --build'
    assert (out / "requirements.txt").read_text() == pinned_requirement("serve,serving") + "\n"
    command = '["/models/reviews", "--host", "0.0.0.0", "--port", "8501", "--grpc-port", "8500"]'
    docker = (out / "Dockerfile").read_text()
    assert f"CMD {command}" in docker and f'-v "{folder}:/models/reviews:ro"' in docker
    for compose in (out / "compose.yaml", out / "tensorflow-serving" / "compose.yaml"):
        (volume,) = yaml.safe_load(compose.read_text())["services"]["reviews"]["volumes"]
        assert volume["source"].replace("$$", "$") == str(folder)
        assert volume["target"] == "/models/reviews" and volume["read_only"]
        deployment, service = yaml.safe_load_all(compose.with_name("kubernetes.yaml").read_text())
        assert deployment["metadata"]["name"] == service["metadata"]["name"] == "reviews"
        assert "/models/reviews" in str(deployment)
    assert "tickets" not in str([p.read_text().replace(str(folder), "") for p in out.glob("Dock*")])


def test_tensorflow_serving_serves_another_name(folder, tmp_path):
    out = write_deployment(folder, "mail", tmp_path / "deploy") / "tensorflow-serving"
    service = yaml.safe_load((out / "compose.yaml").read_text())["services"]["mail"]
    deployment, _ = yaml.safe_load_all((out / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert service["environment"] == {"MODEL_NAME": "mail"}  # it serves /models/mail
    assert container["env"] == [{"name": "MODEL_NAME", "value": "mail"}]
    assert service["volumes"][0]["target"] == "/models/mail"
    # `models.config` of the export has the name of its folder
    assert not any("models.config" in flag for flag in service["command"] + container["args"])
    assert set(container["args"]) == set(service["command"])


def test_a_plain_saved_model_has_no_files_for_tensorflow_serving(folder, tmp_path):
    out = write_deployment(folder / "1", "reviews", tmp_path / "deploy")
    assert sorted(path.name for path in out.iterdir()) == [
        "Dockerfile", "compose.yaml", "kubernetes.yaml", "requirements.txt",
    ]  # fmt: skip


def test_options_that_the_files_would_not_contain(folder, tmp_path, capsys):
    options = ["--cache-mb", "64", "--port", "9000", "--write-docker", str(tmp_path / "deploy")]
    assert main(["serve", str(folder), *options]) == 2
    message = capsys.readouterr().err
    assert "--write-docker does not write --port, --cache-mb to the files" in message
    assert not (tmp_path / "deploy").exists()


def test_rejected_names_and_directories(folder, tmp_path, capsys):
    for name in ("My_Model", "1st", "a" * 64, "end-"):
        with pytest.raises(InputError, match="lowercase letters, digits and hyphens"):
            write_deployment(folder, name, tmp_path / "deploy")
    assert not (tmp_path / "deploy").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    assert main(["serve", str(folder), "--write-docker", str(tmp_path / "full")]) == 2
    assert "contains files. Choose a new directory" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]

"""Damage to the files of a text model is noticed; an interrupted save and an edit that was sealed are no damage."""

import json
import shutil

import numpy as np
import pytest
from programs import run_here
from safetensors.torch import load_file, save_file
from tiny_encoder import tiny_encoder

import rankgrad as rg
from rankgrad.text.encoder_files import replace_encoder
from rankgrad.text.encoder_seal import SEAL

TEXTS = ["wing flap", "nozzle probe"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Three text models, of encoders without dropout: bi-encoder, static encoder, cross-encoder."""
    home = tmp_path_factory.mktemp("whole")
    encoder = str(tiny_encoder(home / "encoder", words="what is a wing flap nozzle probe", dropout=0.0))
    rg.text.BiEncoderRanker(encoder, device="cpu").save(home / "bi")
    rg.text.BiEncoderRanker(f"static:{encoder}", device="cpu").save(home / "static")
    data = rg.text.candidate_lists(
        rg.text.Collection(dict(zip("ab", TEXTS, strict=True)), {"1": "wing"}, {"1": {"a": 1, "b": 0}}),
        {"1": {"a": 1.0, "b": 0.5}},
    )
    rg.text.CrossEncoderRanker(encoder, device="cpu", epochs=1, lr=1e-9).fit(data).save(home / "cross")
    return home


def scores(folder):
    return rg.models.load(folder).network.score_texts(["what is a wing"] * 2, TEXTS).detach().numpy()


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("kind", ["bi", "static", "cross"])
def test_every_changed_removed_or_new_file_is_refused_by_its_name(whole, kind, tmp_path):
    expected = scores(whole / kind)
    names = [path.relative_to(whole / kind / "encoder") for path in (whole / kind / "encoder").rglob("[!.]*.*")]
    assert len(names) >= 4
    for name in names:
        for harm in ("flipped", "removed"):
            folder = shutil.copytree(whole / kind, tmp_path / f"{name.as_posix().replace('/', '-')}-{harm}")
            path = folder / "encoder" / name
            content = bytearray(path.read_bytes())
            content[-7] ^= 1
            path.write_bytes(content) if harm == "flipped" else path.unlink()
            if (name.as_posix(), harm) == (SEAL, "removed"):  # as in a folder of version 0.2
                assert np.array_equal(scores(folder), expected)
                continue
            with pytest.raises(ValueError, match=r"must be (unchanged since|JSON)") as error:
                rg.models.load(folder)
            assert str(path) in str(error.value)
    folder = shutil.copytree(whole / kind, tmp_path / "added")
    (folder / "encoder" / "added_tokens.json").write_text('{"wing": 3}')
    with pytest.raises(ValueError, match=r"added_tokens\.json must be unchanged .*; got a new file"):
        rg.models.load(folder)
    (folder / "encoder" / "added_tokens.json").rename(folder / "encoder" / "README.md")
    assert np.array_equal(scores(folder), expected)


@pytest.mark.parametrize("kind", ["bi", "cross"])
@pytest.mark.parametrize("harm", ["layer more", "layer less", "no tensors of a layer", "other shape"])
def test_a_trained_model_without_hashes_has_exactly_the_weights_of_its_configuration(whole, kind, harm, tmp_path):
    folder = shutil.copytree(whole / kind, tmp_path / "a")
    encoder = folder / "encoder"
    (encoder / SEAL).unlink()
    tensors = load_file(encoder / "model.safetensors")
    if harm.startswith("layer"):
        edit(encoder / "config.json", num_hidden_layers=3 if harm == "layer more" else 1)
    elif harm == "other shape":
        edit(encoder / "config.json", max_position_embeddings=127)
    else:
        tensors = {name: tensor for name, tensor in tensors.items() if "layer.1." not in name}
    save_file(tensors, encoder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="must contain the weights") as error:
        rg.models.load(folder)
    assert str(encoder) in str(error.value)


def test_a_new_head_is_for_training_only(whole, tmp_path):
    """A base model without a pooler and a head starts a training, but is not a trained model."""
    folder = shutil.copytree(whole / "cross", tmp_path / "a")
    tensors = load_file(folder / "encoder" / "model.safetensors")
    kept = {name: each for name, each in tensors.items() if "pooler" not in name and "classifier" not in name}
    save_file(kept, folder / "encoder" / "model.safetensors", {"format": "pt"})
    (folder / "encoder" / SEAL).unlink()
    for kind in (rg.text.BiEncoderRanker, rg.text.CrossEncoderRanker):
        network = kind(folder / "encoder", device="cpu")
        if kind is rg.text.BiEncoderRanker:
            assert len(network.encode(TEXTS)) == 2
        else:
            with pytest.raises(ValueError, match="whose head would be random"):
                network.fitted()
    with pytest.raises(ValueError, match="must contain the weights of the trained model"):
        rg.models.load(folder)


def test_a_save_that_was_killed_before_the_configuration_is_no_damage(whole, tmp_path):
    folder = shutil.copytree(whole / "bi", tmp_path / "a")
    model = rg.models.load(folder)
    for weight in model.network.parameters():
        weight.data += 0.01
    replace_encoder(folder, model.network.write)  # killed here: `config.json` is the old one
    changed = scores(folder)
    assert not np.array_equal(changed, scores(whole / "bi"))


def test_the_command_seals_an_edited_folder(whole, tmp_path):
    folder = shutil.copytree(whole / "bi", tmp_path / "a")
    edit(folder / "encoder" / "config_sentence_transformers.json", prompts={"query": "what is a "})
    with pytest.raises(ValueError, match="run `rankgrad text seal"):
        rg.models.load(folder)
    assert "files sealed" in run_here("text", "seal", folder)
    assert not np.array_equal(scores(folder), scores(whole / "bi"))
    edit(folder / "encoder" / "config_sentence_transformers.json", prompts={"query": ""})
    run_here("text", "seal", folder / "encoder")
    assert np.array_equal(scores(folder), scores(whole / "bi"))
    with pytest.raises(ValueError, match="folder must be a folder with the files of an encoder; got"):
        run_here("text", "seal", tmp_path / "none")


@pytest.mark.parametrize(
    "change", [{"passages": [[]]}, {"max_length": "x"}, {"chunk": 0}, {"temperature": None}, {"model": 5}], ids=str
)
def test_settings_that_were_edited_by_hand_are_checked(whole, change, tmp_path):
    path = shutil.copytree(whole / "bi", tmp_path / "a") / "config.json"
    config = json.loads(path.read_text())
    del config["sha256"]
    path.write_text(json.dumps({**config, "settings": {**config["settings"], **change}}))
    with pytest.raises(ValueError, match=rf"config\.json: {min(change)} must") as error:
        rg.models.load(path.parent)
    assert str(path) in str(error.value)

"""Configurations of encoders from anyone: no code, no download, no amount of memory is chosen by a file."""

import json
import resource
import shutil
import time

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from tiny_encoder import tiny_encoder

import rankgrad as rg
from rankgrad.text.encoder_loading import EncoderFiles

HUB = "org/name"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("encoder"), words="wing flap nozzle probe")


@pytest.fixture
def copy(encoder, tmp_path):
    return shutil.copytree(encoder, tmp_path / "copy")


def edit(path, changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def vectors(folder):
    return rg.text.BiEncoderRanker(folder, device="cpu").encode(["wing flap", "nozzle"])


@pytest.mark.parametrize(
    "choice",
    [
        {"attn_implementation": HUB},
        {"_attn_implementation": HUB},
        {"_attn_implementation_internal": HUB},
        {"attn_implementation": {"": HUB}},
        {"experts_implementation": HUB},
        {"auto_map": {"AutoModel": f"{HUB}--code.Model"}},
        {"auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}},
        {"dtype": "float16"},
        {"torch_dtype": "nothing"},
        {"transformers_weights": "../other.safetensors"},
        {"per_layer_config": {"0": {"attn_implementation": HUB}}},
        {"fusion_config": {"patch_embeddings": True}},
        {"num_labels": 10**9},
    ],
    ids=lambda choice: next(iter(choice)),
)
def test_keys_that_choose_code_precision_or_files_have_no_effect(encoder, copy, choice):
    edit(copy / "config.json", choice)
    edit(copy / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, f"{HUB}--code.T"]}})
    (copy / "code.py").write_text("raise SystemExit('code of a model was run')\n")
    assert np.array_equal(vectors(copy), vectors(encoder))


def test_a_folder_with_an_adapter_loads_no_other_model(encoder, copy):
    (copy / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": HUB}))
    assert np.array_equal(vectors(copy), vectors(encoder))


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 9_000_000},
        {"vocab_size": 10**15},
        {"num_hidden_layers": 900},
        {"num_hidden_layers": 30_000},
        {"num_hidden_layers": 10**9},
        {"intermediate_size": 10**7},
        {"max_position_embeddings": 10**7},
    ],
    ids=str,
)
def test_sizes_are_compared_with_the_tensors_before_a_model_is_built(copy, changes):
    vectors(copy)  # the libraries are imported
    edit(copy / "config.json", changes)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for kind in (rg.text.BiEncoderRanker, rg.text.CrossEncoderRanker):
        with pytest.raises(ValueError, match="encoder must be a model that transformers can load") as error:
            kind(copy, device="cpu").fitted()
        assert str(copy / "config.json") in str(error.value)
    assert time.monotonic() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", "{"),
        ("config.json", "[" * 100_000),
        ("config.json", None),
        *(
            ("config.json", changes)
            for changes in (
                {"model_type": None},
                {"model_type": "unknown", "auto_map": {"AutoModel": "code.Model"}},
                {"model_type": "encoder-decoder"},
                {"model_type": "clip"},
                {"model_type": "mra"},
                {"hidden_size": "wide"},
                {"hidden_size": 0},
                {"hidden_size": -1},
                {"hidden_act": "unknown"},
                {"num_attention_heads": 3},
                {"num_attention_heads": 0},
                {"layer_norm_eps": None},
                {"initializer_range": "x"},
                {"id2label": ["a"]},
                {"pad_token_id": 10**6},
                {"to_dict": 5},
                {"vocab_size": [1]},
                {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
            )
        ),
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}),
        ("tokenizer_config.json", {"tokenizer_class": ["x"]}),
        ("tokenizer_config.json", {"added_tokens_decoder": 5}),
        ("tokenizer_config.json", {"model_max_length": "x"}),
        ("tokenizer_config.json", {"model_max_length": 0.5}),
        ("tokenizer_config.json", {"model_input_names": 5}),
        ("modules.json", "{}"),
        ("modules.json", '["x"]'),
        ("modules.json", '[{"type": "Pooling", "path": "../.."}]'),
        ("model.safetensors", "x"),
        ("model.safetensors", None),
    ],
    ids=lambda value: str(value)[:50],
)
def test_odd_files_are_refused_in_one_sentence_that_names_them(copy, name, content):
    if isinstance(content, dict):
        edit(copy / name, content)
    elif content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_text(content)
    with pytest.raises(ValueError, match=r"must .*; got ") as error:
        vectors(copy)
    said = str(error.value)
    assert str(copy) in said
    assert "\n" not in said


def test_tokens_beyond_the_table_are_refused(copy):
    tensors = load_file(copy / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    tensors[name] = tensors[name][:-1].clone()
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    edit(copy / "config.json", {"vocab_size": len(tensors[name])})
    with pytest.raises(ValueError, match="must describe an encoder of text; got the number"):
        vectors(copy)


def test_half_precision_and_several_files_are_the_same_weights(encoder, copy):
    tensors = {name: each.half() for name, each in load_file(copy / "model.safetensors").items()}
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    half = vectors(copy)
    assert np.allclose(half, vectors(encoder), atol=1e-2)
    names, parts = sorted(tensors), {}
    for number in (0, 1):
        parts |= dict.fromkeys(names[number::2], f"model-0000{number + 1}-of-00002.safetensors")
        save_file({each: tensors[each] for each in names[number::2]}, copy / parts[names[number]], {"format": "pt"})
    (copy / "model.safetensors").unlink()
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    assert np.array_equal(vectors(copy), half)
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
    with pytest.raises(ValueError, match=r"must contain names of files as `weight_map`; got '\.\./model\.safetensors'"):
        vectors(copy)


def test_a_name_on_the_hub_is_read_from_the_cache_of_the_hub(encoder, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="encoder must be a model that transformers can load; got 'org/name': "):
        vectors(HUB)
    repository = tmp_path / "hub" / "models--org--name"
    shutil.copytree(encoder, repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    assert np.array_equal(vectors(HUB), vectors(encoder))
    assert EncoderFiles(HUB).folder.is_relative_to(repository)

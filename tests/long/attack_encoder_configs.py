"""Hostile configurations of encoders: each encoder scores a text, or is refused in one sentence that names a file.

Keys that choose attention, code, quantisation, precision, files and other models; huge and odd sizes; other types of
models; nested configurations; in config.json, tokenizer_config.json, modules.json and the files of adapters. Nothing is
downloaded, and time and memory are bounded.
"""

import json
import resource
import shutil
import time
import warnings
from functools import cache

import numpy as np
import torch
from damage import HOSTILE, edited, refused
from damage import home as new_home
from no_hub import no_hub
from tiny_encoder import tiny_encoder

import rankgrad as rg

SECONDS, MEGABYTES = 30, 300  # of one attempt, on a busy machine
HUB = "org/name"
CHOICES = {
    "attn_implementation": (HUB, f"{HUB}@main:f", f"flash|{HUB}", "flash_attention_2", "paged|eager", {"": HUB}, 5),
    "_attn_implementation": (HUB, "eager", {"text_config": HUB}),
    "_attn_implementation_internal": (HUB,),
    "experts_implementation": (HUB, "grouped_mm"),
    "auto_map": ({"AutoModel": f"{HUB}--a.B", "AutoConfig": "a.B"}, {"AutoModel": "code.Model"}, "x", []),
    "quantization_config": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, {"quant_method": "gptq"}, {}, "x"),
    "dtype": ("float16", "float64", "int8", "nothing", {"": "float16"}, 5),
    "torch_dtype": ("float16", "complex64", "save"),
    "use_kernels": (True,),
    "kernel_config": ({"kernel_mapping": {"RMSNorm": f"{HUB}:f"}}, "x"),
    "fusion_config": ({"patch_embeddings": True}, {"x": True}),
    "distributed_config": ({"tp_size": 2}, "x"),
    "per_layer_config": ({"0": {"attn_implementation": HUB}}, {"0": {"hidden_size": 10**9}}, {"900": {}}),
    "transformers_weights": ("../../other.safetensors", f"{HUB}/x.safetensors"),
    "backbone": ("resnet50",),
    "use_timm_backbone": (True,),
    "use_pretrained_backbone": (True,),
    "text_config": ({"model_type": "bert", "num_hidden_layers": 10**9}, {"model_type": "mamba"}, HUB),
    "encoder": ({"model_type": "bert", "_name_or_path": HUB},),
    "name_or_path": (HUB, "/etc"),
    "_name_or_path": (HUB,),
    "tokenizer_class": ("BertJapaneseTokenizer", "MistralCommonBackend", "XLMTokenizer", "PreTrainedModel", HUB, 5),
    "num_labels": (10**9, -1, 0, "x"),
    "id2label": ({"0": "a"}, {"x": "a"}, ["a"], {str(number): "a" for number in range(3)}),
    "layer_types": (["full_attention"] * 3, ["x"], [HUB] * 2),
    "attention_types": ([[["global", "local"], 10**9]], [[["global"], 10**7]]),
    "pruned_heads": ({"0": [0]}, {"9": [1]}),
    "architectures": ([HUB], ["BertForMaskedLM"], "x", [5]),
    "adapter_config": ({},),
    "gguf_file": ("../x.gguf", "/dev/zero"),
    "vocab_file": ("/etc/passwd",),
    "fast_tokenizer_files": (["tokenizer.99.0.0.json"], ["../../x.json"]),
    "init_inputs": (["/etc/passwd"],),
    "fix_mistral_regex": (True,),
    "rope_scaling": ({"type": "dynamic", "factor": 1e9}, {"rope_type": "yarn"}, "x"),
    "problem_type": ("single_label_classification", "x"),
    "is_decoder": (True,),
    "add_cross_attention": (True,),
}
SIZES = (0, 1, -1, 3, 7, 1000, 30_000, 10**6, 10**7, 10**9, 10**15, 2**63, 10**40, 0.5, 1e30, "9", None, True, [2], {})


@cache
def prepared():
    """Folders of small encoders of several families, with one tokenizer, and the types that transformers knows."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    home = new_home()
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    bert = tiny_encoder(home / "bert", words="wing flap", positions=64, hidden=16)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    small = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    small |= {"intermediate_size": 16, "max_position_embeddings": 66, "pad_token_id": 0}
    of = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "embedding_size": 16, "num_key_value_heads": 2}
    for name in ("Roberta", "Albert", "DistilBert", "Electra", "ModernBert", "MPNet", "DebertaV2", "Llama", "GPTNeo"):
        options = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3, "window_size": 16}
        options |= {"attention_types": [[["global", "local"], 1]], "num_layers": 2} if name == "GPTNeo" else {}
        config = getattr(transformers, f"{name}Config")(**small, **of, **options)
        getattr(transformers, f"{name}Model")(config).save_pretrained(home / name.lower())
        tokenizer.save_pretrained(home / name.lower())
        rg.text.BiEncoderRanker(home / name.lower(), device="cpu").fitted()
    return home, sorted(CONFIG_MAPPING_NAMES)


def case(rng, folder):
    home, types = prepared()
    families = sorted(path.name for path in home.iterdir())
    place = shutil.copytree(home / families[rng.integers(len(families))], folder / "encoder")
    for _ in range(int(rng.integers(1, 4))):
        _edit(rng, place, types)
    kind = rg.text.CrossEncoderRanker if rng.random() < 0.3 else rg.text.BiEncoderRanker
    given = f"static:{place}" if kind is rg.text.BiEncoderRanker and rng.random() < 0.1 else place
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with no_hub() as called, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ended = _scored(kind, given, place)
    seconds, used = time.monotonic() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert not called, f"the hub was asked: {called[0]}"
    assert seconds < SECONDS, f"{seconds:.0f} s"
    assert used < MEGABYTES, f"{used:.0f} MB"
    assert {path.name for path in folder.iterdir()} == {"encoder"}
    return ended


def _scored(kind, given, place):
    try:
        scores = kind(given, device="cpu", max_length=32).score_texts(
            "wing", ["flap", "a longer text of flaps " * 9, ""]
        )
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return refused(error, place)
    assert scores.shape == (3,)
    assert scores.dtype == np.float32
    return "scored"


def _edit(rng, folder, types):
    """Change one thing in one file."""
    name = str(rng.choice(["config.json", "config.json", "config.json", "tokenizer_config.json", "other"]))
    if name == "other":
        name = str(rng.choice(["adapter_config.json", "generation_config.json", "modules.json", "tokenizer.json"]))
    path = folder / name
    value = json.loads(path.read_text()) if path.is_file() else {}
    if name == "adapter_config.json":
        value = {"peft_type": "LORA", "base_model_name_or_path": HUB, "auto_mapping": {"parent_library": "os"}}
    elif name == "modules.json":
        paths = ("", "1_Pooling", "../..", "/etc", "/dev", 5, None)
        kinds = ("sentence_transformers.models.Pooling", "os.system", "Transformer", None)
        value = [{"type": kinds[rng.integers(4)], "path": paths[rng.integers(7)]} for _ in range(rng.integers(3))]
    way = rng.random()
    if way < 0.4:
        key = str(rng.choice(sorted(CHOICES)))
        _into(rng, value)[key] = CHOICES[key][rng.integers(len(CHOICES[key]))]
    elif way < 0.7 and isinstance(value, dict) and value:
        key = str(rng.choice(sorted(value)))
        value[key] = SIZES[rng.integers(len(SIZES))]
    elif way < 0.8:
        _into(rng, value)["model_type"] = str(rng.choice(types))
    elif way < 0.85 and isinstance(value, dict):
        value[str(rng.choice(["to_dict", "__class__", "", "é", "get_text_config"]))] = HOSTILE[
            rng.integers(len(HOSTILE))
        ]
    else:
        value = edited(rng, value)
    path.write_text(json.dumps(value))


def _into(rng, value):
    """The mapping itself, or sometimes a mapping inside of it."""
    if not isinstance(value, dict):
        return {}
    inner = [each for each in value.values() if isinstance(each, dict)]
    return inner[rng.integers(len(inner))] if inner and rng.random() < 0.2 else value

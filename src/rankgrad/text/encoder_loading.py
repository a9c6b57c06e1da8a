"""Load model and tokenizer of an encoder. Nothing in the files chooses code, a download or an amount of memory.

The files may come from anyone. Therefore `transformers` gets a checked configuration and the tensors of the safetensors
files, never the folder itself: the folder could name adapters, kernels, quantisation or other files.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import torch
from torch import nn

from rankgrad.errors import bad_value
from rankgrad.text.encoder_files import need_package, quiet_transformers
from rankgrad.text.encoder_seal import check_seal
from rankgrad.text.encoder_size import SizeLimit, checked_numbers
from rankgrad.text.encoder_tensors import read_encoder_tensors, tensor_sizes

# Keys that choose code, a file, a precision or a download. Other keys are the architecture's own: more than 80 in some.
_CHOOSING = ("implementation", "auto_map", "dtype", "backbone", "transformers_weights")
_CHOOSING_CONFIGS = ("kernel_config", "fusion_config", "distributed_config", "per_layer_config", "compression_config")
_OF_TOKENIZER = ("auto_map", "gguf_file", "init_inputs")
_TOKENIZER_FILES = {".json", ".txt", ".model"}
_NEEDED = ["*.json", "*.txt", "*.model", "model.safetensors", "model-*-of-*.safetensors", "0_*/model.safetensors"]
_KERNEL_LOADERS = {"use_kernel_func_from_hub_with_fallback", "lazy_load_kernel", "load_cuda_kernels", "get_kernel"}
_LARGEST_JSON = 200_000_000  # bytes of a JSON file of an encoder; the largest known tokenizers have 35 MB


class Loaded(NamedTuple):
    """A model of `transformers`, and the names of its weights that were not in the files."""

    model: Any
    new: list[str]  # weights with random values: of a head, or of a pooler
    unused: list[str]  # weights in the files that the model does not have


class EncoderFiles:
    """The files of an encoder: a folder, or the folder in which the files of a model of the hub are kept.

    Args:
        encoder: local folder, or name on the hub.
    """

    def __init__(self, encoder: str) -> None:
        self.encoder, self.folder = encoder, Path(encoder).expanduser()
        if not self.folder.is_dir():
            self.folder = _downloaded(encoder)
        check_seal(self.folder)

    def json(self, name: str, kind: type = dict) -> Any:
        """Return the content of a JSON file of the encoder; None if there is no such file.

        Args:
            name: path of the file in the folder.
            kind: type that the content must have.
        """
        path = self.folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            bad_value(str(self.folder), "name files inside of the folder only", repr(name))
        if not path.is_file():
            return None
        if path.stat().st_size > _LARGEST_JSON:
            bad_value(str(path), f"have at most {_LARGEST_JSON:,} bytes", f"{path.stat().st_size:,}")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            bad_value(str(path), "be JSON", f"the error {library_message(error)}")
        if not isinstance(found, kind):
            bad_value(str(path), f"be JSON with a {kind.__name__}", type(found).__name__)
        return found

    def config(self, *, outputs: int | None = None) -> Any:
        """Return the configuration of the encoder, without keys that choose code, files, precision or a download.

        Args:
            outputs: number of outputs of the head; None for a model without a head.
        """
        found = self.json("config.json")
        if found is None:
            self.refuse("config.json", "no such file")
        if found.get("quantization_config") is not None:
            bad_value(str(self.folder / "config.json"), "be of an encoder without quantisation", "quantization_config")
        clean = _without_choices(found)
        if outputs is None or len(clean.get("id2label") or ()) != outputs:
            clean = {name: value for name, value in clean.items() if name not in ("problem_type", "num_labels")}
        if outputs is not None and len(clean.get("id2label") or ()) != outputs:
            clean = {name: value for name, value in clean.items() if name not in ("id2label", "label2id")}
            clean["num_labels"] = outputs
        with self.refusing("config.json"):
            checked_numbers(clean, layers=max(1000, len(tensor_sizes(self.folder))))
            kind = _config_class(found.get("model_type"))
            config = kind.from_dict(clean)
            config._name_or_path = self.encoder
        return config

    def model(self, *, outputs: int | None = None) -> Loaded:
        """Return the model of the encoder in float32. Only weights of a head or a pooler may be missing in the files.

        Args:
            outputs: number of outputs of the head; None for a model without a head.
        """
        sizes = tensor_sizes(self.folder)
        config = self.config(outputs=outputs)
        with quiet_transformers() as transformers:
            auto = transformers.AutoModel if outputs is None else transformers.AutoModelForSequenceClassification
            with self.refusing("config.json"), SizeLimit(sizes), torch.device("meta"):
                kind = type(auto.from_config(config))
                _check_no_kernels(kind)
            tensors = read_encoder_tensors(self.folder)
            with self.refusing("model.safetensors"):
                model, told = kind.from_pretrained(
                    None,
                    config=config,
                    state_dict=tensors,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                    torch_dtype=torch.float32,
                )
        other = [each[0] for each in told["mismatched_keys"]]
        new = sorted({*told["missing_keys"], *other})
        prefix = f"{model.base_model_prefix}." if outputs is not None else ""
        body = [name for name in new if name.startswith(prefix) and "pooler" not in name.split(".")]
        if body:
            got = f"{body[0]} with another shape" if body[0] in other else f"no {body[0]}"
            more = f", and {len(body) - 1} more" if len(body) > 1 else ""
            bad_value(str(self.folder), "contain the weights that its config.json describes", f"{got}{more}")
        return Loaded(model.float(), new, sorted(told["unexpected_keys"]))

    def tokenizer(self, config: Any = None) -> Any:
        """Return the tokenizer of the encoder.

        Args:
            config: configuration of the encoder; None for an encoder without layers.
        """
        about = self.json("tokenizer_config.json") or {}
        about = {name: value for name, value in about.items() if not _of_tokenizer(name)}
        with quiet_transformers() as transformers, tempfile.TemporaryDirectory(prefix="rankgrad-") as place:
            config = transformers.PretrainedConfig() if config is None else config
            for path in self.folder.iterdir():
                if path.suffix in _TOKENIZER_FILES and path.is_file():
                    shutil.copyfile(path, Path(place, path.name))
            Path(place, "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
            Path(place, "config.json").write_text(json.dumps({"model_type": config.model_type}), encoding="utf-8")
            with self.refusing("tokenizer.json"):
                for name in {about.get("tokenizer_class"), getattr(config, "tokenizer_class", None)} - {None}:
                    _check_fast(name)
                found = transformers.AutoTokenizer.from_pretrained(place, config=config, trust_remote_code=False)
        found.name_or_path = self.encoder
        return found

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Turn each error of a library in the `with` block into one sentence that names a file of the encoder.

        Args:
            name: name of the file.
        """
        try:
            yield
        except Exception as error:
            self.refuse(name, library_message(error), error)

    def refuse(self, name: str, got: str, cause: Exception | None = None) -> NoReturn:
        """Raise the error that `transformers` cannot load the encoder.

        Args:
            name: name of the file.
            got: reason.
            cause: error of a library.
        """
        must = "encoder must be a model that transformers can load"
        raise ValueError(f"{must}; got {str(self.folder / name)!r}: {got}") from cause


class SentenceSettings(NamedTuple):
    """Settings of an encoder in the format of sentence-transformers."""

    pooling: str = "mean"  # mean: mean of the output vectors; cls: output vector of [CLS]
    prompts: Mapping[str, str] = MappingProxyType({})  # for the keys query and document: text before each input


def sentence_settings(files: EncoderFiles) -> SentenceSettings:
    """Return the pooling and the prompts of an encoder. Raise an error for settings that `BiEncoder` does not support.

    Args:
        files: files of the encoder. If they are not in the format of sentence-transformers, the pooling is the mean.
    """
    modules = files.json("modules.json", list)
    if modules is None:
        return SentenceSettings()
    with files.refusing("modules.json"):
        kinds = {str(module.get("type", "")).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    if unknown := kinds.keys() - {"Transformer", "Pooling", "Normalize"}:
        must = "be a Transformer with pooling (and perhaps normalisation)"
        bad_value("encoder", must, f"{files.encoder!r} with a module {min(unknown)}")
    config = files.json(f"{kinds['Pooling']}/config.json") if "Pooling" in kinds else None
    about = "config_sentence_transformers.json"
    prompts = (files.json(about) or {}).get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        bad_value(str(files.folder / about), "have a mapping from name to text as `prompts`", repr(prompts)[:80])
    named = {"query": prompts.get("query", ""), "document": prompts.get("document", prompts.get("passage", ""))}
    return SentenceSettings(_pooling(files.encoder, config or {}), {name: text for name, text in named.items() if text})


def _pooling(encoder: str, config: dict[str, Any]) -> str:
    """Return `"mean"` or `"cls"` from the configuration of an encoder's pooling module."""
    flags = [
        name.removeprefix("pooling_mode_") for name, on in config.items() if name.startswith("pooling_mode_") and on
    ]
    found = [str(config["pooling_mode"])] if "pooling_mode" in config else flags or ["mean"]
    names = {"cls": "cls", "cls_token": "cls", "mean": "mean", "mean_tokens": "mean"}
    if len(found) != 1 or found[0] not in names:
        bad_value("encoder", "pool by mean or by [CLS]", f"{encoder!r} with pooling {' and '.join(found)}")
    return names[found[0]]


def library_message(error: BaseException) -> str:
    """Return the message of an error of a library in one line.

    Args:
        error: error of a library.
    """
    text = " ".join(str(error).strip().splitlines()[:2])[:300]
    return f"{type(error).__name__}: {text}" if not isinstance(error, ValueError | OSError) or not text else text


def _downloaded(encoder: str) -> Path:
    """Download the files of a model of the hub, if they are not on this machine, and return their folder."""
    need_package("transformers", "a text ranker")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(encoder, allow_patterns=_NEEDED, ignore_patterns=["onnx/*", "openvino/*"]))
    except (OSError, ValueError) as error:  # the errors of the package, also about names, are of these types
        got = f"{encoder!r}: {library_message(error)}"
        raise ValueError(f"encoder must be a model that transformers can load; got {got}") from error


def _without_choices(config: Any) -> Any:
    """Return a configuration without keys that choose code, files or precision, also in nested parts."""
    if isinstance(config, list):
        return [_without_choices(each) for each in config]
    if not isinstance(config, dict):
        return config
    return {
        name: _without_choices(value)
        for name, value in config.items()
        if not name.startswith("_") and name not in _CHOOSING_CONFIGS and not any(part in name for part in _CHOOSING)
    }


def _of_tokenizer(name: str) -> bool:
    return name.startswith("_") or name in _OF_TOKENIZER or name.endswith(("_file", "_files"))


def _config_class(model_type: Any) -> Any:
    """Return the class of a configuration, for the types of models that read text only."""
    from transformers.models.auto import modeling_auto as auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    tasks = ("SEQUENCE_CLASSIFICATION", "MASKED_LM", "TEXT_ENCODING")
    known = {name for task in tasks for name in getattr(auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {})}
    if not isinstance(model_type, str) or model_type not in known:
        bad_value("model_type", "be an encoder of text that transformers knows", repr(model_type)[:80])
    kind = CONFIG_MAPPING[model_type]
    if kind.sub_configs:
        bad_value("model_type", "be an encoder of text without parts of other types", repr(model_type))
    return kind


def _check_no_kernels(kind: type[nn.Module]) -> None:
    """Refuse a class of `transformers` that loads native code from the hub when it is used."""
    found = _KERNEL_LOADERS & vars(sys.modules[kind.__module__]).keys()
    if found:
        bad_value("model_type", "be an encoder that needs no kernels of the hub", kind.__name__)


def _check_fast(name: Any) -> None:
    """Refuse a class of tokenizers that runs other programs. Only the fast tokenizers are data."""
    from transformers import PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    if not isinstance(name, str):
        bad_value("tokenizer_class", "be text", repr(name)[:80])
    kinds = [tokenizer_class_from_name(each) for each in (name, f"{name.removesuffix('Fast')}Fast")]
    known = [kind for kind in kinds if isinstance(kind, type)]
    if known and not any(issubclass(kind, PreTrainedTokenizerFast) for kind in known):
        bad_value("tokenizer_class", "be a fast tokenizer", repr(name))

"""Static encoder: one vector per token and no layers. It is much faster than a Transformer."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from rankgrad.errors import bad_value
from rankgrad.text.encoder_files import STATIC, load_pretrained, need_package

_FOLDER = "0_StaticEmbedding"


class StaticBody(nn.Module):
    """An embedding table with the interface of an encoder of `transformers`.

    Args:
        table: vectors of the tokens, `(tokens, width)`.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(table.detach().clone().float(), freeze=False)
        self.config = SimpleNamespace(hidden_size=table.shape[1])

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Tensor) -> SimpleNamespace:
        """Return the static vectors of the tokens as `last_hidden_state`, `(n, tokens, width)`.

        Args:
            input_ids: token ids, `(n, tokens)`.
            attention_mask: not used; padding is removed when the vectors are averaged.
        """
        return SimpleNamespace(last_hidden_state=self.embedding(input_ids))

    @staticmethod
    def load(encoder: str) -> "tuple[Any, StaticBody]":
        """Return the tokenizer and the embedding table of a static encoder.

        Args:
            encoder: folder or name of the encoder, after the prefix `static:`.
        """
        name = encoder.removeprefix(STATIC)
        tokenizer, model = load_pretrained(name, "AutoTokenizer"), load_pretrained(name, "AutoModel")
        return tokenizer, StaticBody(model.get_input_embeddings().weight)

    @staticmethod
    def saved(folder: Path) -> "tuple[Any, StaticBody] | None":
        """Return the tokenizer and the table of a folder that was written by `write`; None for any other folder.

        Args:
            folder: folder of the encoder.
        """
        path = folder.expanduser() / _FOLDER
        if not path.is_dir():
            return None
        need_package("transformers", "a text ranker")
        from safetensors.torch import load_file

        tables = load_file(path / "model.safetensors")
        if "embedding.weight" not in tables:
            bad_value(str(path / "model.safetensors"), "contain embedding.weight", sorted(tables))
        return load_pretrained(str(path), "AutoTokenizer"), StaticBody(tables["embedding.weight"])

    def write(self, folder: Path, tokenizer: Any, max_length: int) -> None:
        """Write files that `sentence-transformers` can load as a `StaticEmbedding`.

        Args:
            folder: existing folder.
            tokenizer: tokenizer of `transformers`.
            max_length: maximum number of tokens of a text.
        """
        from safetensors.torch import save_file

        path = folder / _FOLDER
        path.mkdir(exist_ok=True)
        tokenizer.backend_tokenizer.enable_truncation(max_length)  # `tokenizer.json` contains this limit
        tokenizer.save_pretrained(path)
        save_file({"embedding.weight": self.embedding.weight.detach().cpu().contiguous()}, path / "model.safetensors")
        kinds = (("0", _FOLDER, "StaticEmbedding"), ("1", "1_Normalize", "Normalize"))
        modules = [
            {"idx": index, "name": name, "path": place, "type": f"sentence_transformers.models.{kind}"}
            for index, (name, place, kind) in enumerate(kinds)
        ]
        (folder / "1_Normalize").mkdir(exist_ok=True)
        (folder / "modules.json").write_text(json.dumps(modules, indent=2), encoding="utf-8")

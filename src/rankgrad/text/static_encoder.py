"""Static encoder: one vector per token and no layers. It is much faster than a Transformer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from rankgrad.errors import bad_value
from rankgrad.text.encoder_files import need_package, write_modules
from rankgrad.text.encoder_loading import EncoderFiles
from rankgrad.text.encoder_tensors import ONE, read_encoder_tensors

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

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the table, as an encoder of `transformers` does."""
        return self.embedding

    @staticmethod
    def load(files: EncoderFiles) -> "tuple[Any, StaticBody]":
        """Return the tokenizer and the embedding table of an encoder that has layers.

        Args:
            files: files of the encoder.
        """
        model = files.model().model
        return files.tokenizer(model.config), StaticBody(model.get_input_embeddings().weight)

    @staticmethod
    def saved(files: EncoderFiles) -> "tuple[Any, StaticBody] | None":
        """Return the tokenizer and the table of a folder that was written by `write`; None for any other folder.

        Args:
            files: files of the encoder.
        """
        if not (path := files.folder / _FOLDER).is_dir():
            return None
        need_package("transformers", "a text ranker")
        tables = read_encoder_tensors(path)
        if "embedding.weight" not in tables or tables["embedding.weight"].dim() != 2:
            bad_value(str(path / ONE), "contain a matrix embedding.weight", sorted(tables))
        return EncoderFiles(str(path)).tokenizer(), StaticBody(tables["embedding.weight"])

    def write(self, folder: Path, tokenizer: Any, max_length: int) -> None:
        """Write files that `sentence-transformers` can load as a `StaticEmbedding`.

        Args:
            folder: existing folder.
            tokenizer: tokenizer of `transformers`.
            max_length: maximum number of tokens of a text.
        """
        from safetensors.torch import save_file

        write_modules(folder, ((_FOLDER, "StaticEmbedding"), ("1_Normalize", "Normalize")))
        path = folder / _FOLDER
        tokenizer.backend_tokenizer.enable_truncation(max_length)  # `tokenizer.json` contains this limit
        tokenizer.save_pretrained(path)
        save_file({"embedding.weight": self.embedding.weight.detach().cpu().contiguous()}, path / ONE)

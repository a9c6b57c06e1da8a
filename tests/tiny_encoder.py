"""A tiny BERT with random weights and a tokenizer of whole words, written as a Hugging Face folder: no download."""

import re
from collections.abc import Iterable
from pathlib import Path

import torch

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_encoder(
    folder: str | Path,
    *,
    words: Iterable[str] | str = (),
    hidden: int = 32,
    layers: int = 2,
    heads: int = 2,
    inner: int | None = None,
    positions: int = 128,
    dropout: float = 0.1,
    seed: int = 0,
) -> Path:
    """Write config.json, model.safetensors and the files of a tokenizer, for AutoModel and AutoTokenizer.

    The vocabulary has the special tokens, single characters as pieces, and the words of `words` (texts), in order of
    the alphabet. So a known word is one token, and an unknown word is spelled. The same arguments write the same files.
    `inner` is the width inside the feed-forward layers, twice `hidden` by default.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    from transformers.utils import logging

    folder = Path(folder)
    texts = [words] if isinstance(words, str) else words
    known = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    vocabulary = dict.fromkeys([*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *known])
    numbers = {token: number for number, token in enumerate(vocabulary)}
    split = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    split.normalizer = normalizers.BertNormalizer()
    split.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    split.post_processor = processors.BertProcessing(("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"]))
    names = zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=split,
        model_max_length=positions,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **dict(names),
    )
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(numbers),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden if inner is None else inner,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.1,  # larger than in BERT, so that different texts get different outputs
    )
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    if bars:
        logging.enable_progress_bar()
    return folder

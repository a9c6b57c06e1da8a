"""Score the lists of a text data set in blocks, with progress. A cross-encoder resumes after the last block."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.data import Dataset
    from rankgrad.text.model import TextModel

PAIRS = 1024  # pairs of query and document per block
ROWS = 65_536  # pairs whose vectors are multiplied at once


def partial_file(out: Path) -> Path:
    """Return the path of the file that contains the scores of complete blocks before `out` is written."""
    return out.with_name(f"{out.name}.partial")


def score_in_blocks(
    model: "TextModel", data: "Dataset", out: Path | None = None, folder: "IndexFolder | None" = None
) -> "NDArray[Any]":
    """Score the lists of a text data set in blocks, and return one score per document.

    After writing `out`, the caller must remove `partial_file(out)`. A bi-encoder encodes each text once. Therefore, an
    interrupted command with a bi-encoder starts from the beginning.

    Args:
        model: text ranker.
        data: text data set.
        out: file that the caller will write; None to write no file with the scores of complete blocks.
        folder: index folder that may contain the embeddings of all documents by this model; None to compute them.
    """
    import numpy as np

    from rankgrad.atomic_files import writing
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.progress import Progress
    from rankgrad.cli.text.text_models import kept_embeddings
    from rankgrad.text.bi_encoder import BiEncoder
    from rankgrad.text.collection import collection_of
    from rankgrad.training.model import list_ranges

    if isinstance(model.network, BiEncoder) and model.network.tokeniser.passages != "best":
        known = None if folder is None else kept_embeddings(folder, collection_of(data), model)
        if known is not None:
            return _cosines(model, data, known)
        with Progress("encoding", every=10) as progress:
            return model.score_lists(data, lambda done, count: progress.at("blocks of documents encoded", done, count))
    ranges = [*list_ranges(data.offsets, PAIRS)]
    path = None if out is None or len(ranges) == 1 else partial_file(out)
    lines: list[dict[str, Any]] = []
    done: list[list[float]] = []
    if path is not None:
        identity = _identity(model, data)
        lines = _complete_lines(path, identity, [int(data.offsets[b] - data.offsets[a]) for a, b in ranges])
        done = [line["scores"] for line in lines[1:]]
        with writing(path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    if done:
        messages(True).print(f"resuming: {len(done)} of {len(ranges)} blocks of lists are scored", markup=False)
    scores = np.empty(len(data.labels), dtype=np.float32)
    with Progress("scoring", every=10) as progress:
        for number, (first, last) in enumerate(ranges):
            rows = slice(int(data.offsets[first]), int(data.offsets[last]))
            if number < len(done):
                scores[rows] = done[number]
                continue
            scores[rows] = model.score_lists(data.take(np.arange(first, last)))
            if path is not None:
                lines.append(_block(lines[-1], scores[rows].tolist()))
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
            progress.at("blocks of lists scored", number + 1, len(ranges))
    return scores


def _cosines(model: "TextModel", data: "Dataset", embeddings: Any) -> "NDArray[Any]":
    """Return the scores of a bi-encoder for lists whose documents are already encoded. Only the queries are encoded."""
    import numpy as np
    import torch

    from rankgrad.text.bi_encoder import BiEncoder
    from rankgrad.text.collection import collection_of
    from rankgrad.text.model import pairs_of

    assert isinstance(model.network, BiEncoder)
    pairs, texts = pairs_of(data), collection_of(data).queries
    queries, query = np.unique(pairs[:, 0], return_inverse=True)
    with torch.inference_mode(), model.precision():
        asked = model.network.eval().vectors([texts.full(number) for number in queries], documents=False)
    vectors, scores = asked.float().cpu().numpy(), np.empty(len(pairs), dtype=np.float32)
    for start in range(0, len(pairs), ROWS):
        rows = slice(start, start + ROWS)
        scores[rows] = np.einsum("ij,ij->i", vectors[query[rows]], embeddings[pairs[rows, 1]])
    return scores / np.float32(model.network.temperature)


def _identity(model: "TextModel", data: "Dataset") -> dict[str, str]:
    """Return hashes of the model, the lists and the texts. If the hashes are equal, the scores are equal."""
    from rankgrad.cli.text.index_folder import fingerprint
    from rankgrad.text.collection import collection_of

    settings = json.dumps(model.settings, sort_keys=True, default=str)
    assert data.docids is not None
    lists = fingerprint([*map(str, data.qids.tolist()), *map(str, data.docids.tolist())])
    texts = collection_of(data).content_hash
    return {"model": fingerprint([model.weights_hash(), settings]), "lists": lists, "texts": texts}


def _block(before: dict[str, Any], scores: list[float]) -> dict[str, Any]:
    """Return the line of a block, with a hash of its scores and of the line before."""
    from rankgrad.atomic_files import hash_of

    return {"scores": scores, "sha256": hash_of(json.dumps([before.get("sha256", before), scores]).encode())}


def _complete_lines(path: Path, identity: dict[str, str], sizes: list[int]) -> list[dict[str, Any]]:
    """Return the identity, and the lines of complete blocks. Scores that are damaged, of another model or of other
    lists are not used; the last line may be incomplete, and blocks of version 0.2 had no hash.
    """
    try:
        first, *found = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [""]
        if json.loads(first or "null") != identity:
            return [identity]
    except ValueError:
        return [identity]
    lines: list[dict[str, Any]] = [identity]
    for text, size in zip(found, sizes, strict=False):
        try:
            scores = json.loads(text)["scores"]
            if len(scores) != size or json.dumps(_block(lines[-1], scores)) != text:
                break
        except (ValueError, TypeError, KeyError):
            break
        lines.append(_block(lines[-1], scores))
    return lines

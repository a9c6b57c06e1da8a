"""Score the lists of a text data set in blocks, with progress. A cross-encoder resumes after the last block."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankgrad.data import Dataset
    from rankgrad.text.bi_encoder import BiEncoder
    from rankgrad.text.model import TextModel

PAIRS = 1024  # pairs of query and document per block
_ROWS = 65_536  # pairs whose vectors are multiplied at once


def partial_file(out: Path) -> Path:
    """Return the path of the file with the scores of complete blocks, until `out` is written."""
    return out.with_name(f"{out.name}.partial")


def score_in_blocks(model: "TextModel", data: "Dataset", out: Path | None = None) -> "NDArray[Any]":
    """Return one score per document. The caller removes `partial_file(out)` when it has written `out`.

    A bi-encoder encodes each text once, and an interrupted command begins again.

    Args:
        model: text ranker.
        data: text data set.
        out: file that the caller writes; None to keep no scores of complete blocks.
    """
    import numpy as np

    from rankgrad.cli.json_output import messages
    from rankgrad.cli.progress import Progress
    from rankgrad.text.bi_encoder import BiEncoder
    from rankgrad.training.model import list_ranges

    if isinstance(model.network, BiEncoder) and model.network.tokeniser.passages != "best":
        return _cosines(model, model.network, data)
    ranges = [*list_ranges(data.offsets, PAIRS)]
    path, done = None if out is None or len(ranges) == 1 else partial_file(out), []
    if path is not None:
        identity = _identity(model, data)
        done = _complete_blocks(path, identity, [int(data.offsets[b] - data.offsets[a]) for a, b in ranges])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in [identity, *done]), encoding="utf-8")
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
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(scores[rows].tolist()) + "\n")
            progress.at("blocks of lists scored", number + 1, len(ranges))
    return scores


def _cosines(model: "TextModel", network: "BiEncoder", data: "Dataset") -> "NDArray[Any]":
    """Return the scores of a bi-encoder; the document of a pair has one vector."""
    import numpy as np
    import torch

    from rankgrad.cli.progress import Progress
    from rankgrad.cli.text.text_models import BLOCK
    from rankgrad.text.collection import collection_of
    from rankgrad.text.model import pairs_of

    pairs, texts = pairs_of(data), collection_of(data)
    queries, query = np.unique(pairs[:, 0], return_inverse=True)
    documents, document = np.unique(pairs[:, 1], return_inverse=True)
    network.eval()
    with Progress("encoding", every=10) as progress, torch.inference_mode(), model.precision():
        asked = network.vectors([texts.queries.full(each) for each in queries.tolist()], documents=False).float()
        starts, parts = range(0, len(documents), BLOCK), []
        for number, start in enumerate(starts, 1):
            some = [texts.documents.full(each) for each in documents[start : start + BLOCK].tolist()]
            parts.append(network.vectors(some).float())
            progress.at("blocks of documents encoded", number, len(starts))
        found, scores = torch.cat(parts), np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), _ROWS):
            rows = slice(start, start + _ROWS)
            left, right = (torch.from_numpy(each[rows]).to(found.device) for each in (query, document))
            scores[rows] = ((asked[left] * found[right]).sum(-1) / network.temperature).cpu().numpy()
    return scores


def _identity(model: "TextModel", data: "Dataset") -> dict[str, str]:
    """Return hashes of the model and of the lists; with the same hashes, the scores are the same."""
    from rankgrad.cli.text.index_folder import fingerprint

    settings = json.dumps(model.settings, sort_keys=True, default=str)
    assert data.docids is not None
    lists = fingerprint([*map(str, data.qids.tolist()), *map(str, data.docids.tolist())])
    return {"model": fingerprint([model.weights_hash(), settings]), "lists": lists}


def _complete_blocks(path: Path, identity: dict[str, str], sizes: list[int]) -> list[list[float]]:
    """Return the scores of complete blocks; none if the file is of another model or of other lists."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    found: list[Any] = []
    for line in lines:
        try:
            found.append(json.loads(line) if line.endswith("\n") else None)  # the last line may be incomplete
        except ValueError:
            found.append(None)
    if not found or found[0] != identity:
        return []
    blocks = []
    for block, size in zip(found[1:], sizes, strict=False):
        if not isinstance(block, list) or len(block) != size:
            break
        blocks.append(block)
    return blocks

"""Load a text ranker or an encoder from a folder of rankgrad, from another folder, or from the Hugging Face hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.cli.argument_checks import check_device, load_model
from rankgrad.errors import Problems, bad_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.text import BiEncoderRanker, Collection
    from rankgrad.text.model import TextModel

BLOCK = 256  # documents that are encoded between two updates of the progress


def is_model(name: str | Path) -> bool:
    """Return True for the folder of a model of rankgrad. Encoders of Hugging Face also have a `config.json`."""
    import json

    from rankgrad.models.folder import CONFIG, FORMAT

    path = Path(name) / CONFIG
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


def check_exists(option: str, name: str, what: str = "folder", endings: tuple[str, ...] = ()) -> None:
    """Raise an error if the name of a model is probably a wrong path: only the parent folder of the path exists.

    Args:
        option: name of the option in the error.
        name: folder, or name on the Hugging Face hub.
        what: name of existing things that the option accepts, for the error.
        endings: endings of files that the option also accepts. A name with such an ending is a path.
    """
    from rankgrad.settings.text import STATIC

    path = Path(name.removeprefix(STATIC)).expanduser()
    if not path.exists() and (path.suffix in endings or (path.parent != Path() and path.parent.is_dir())):
        bad_value(option, f"be an existing {what}, or the name of a model on the Hugging Face hub", repr(name))


def encoder_of(name: str) -> str:
    """Return the encoder of a training: the folder in a model of rankgrad, another folder (absolute), or a name."""
    from rankgrad.settings.text import STATIC
    from rankgrad.text.encoder_files import ENCODER

    check_exists("encoder", name)
    prefix, name = (STATIC, name.removeprefix(STATIC)) if name.startswith(STATIC) else ("", name)
    path = Path(name).expanduser()
    if is_model(path):
        path /= ENCODER
    return f"{prefix}{path.resolve()}" if path.exists() else f"{prefix}{name}"


def load_text_model(name: str, device: str, option: str = "model") -> "TextModel":
    """Return a text ranker: a model of rankgrad, or a pretrained bi-encoder or cross-encoder.

    Args:
        name: folder or name of the ranker.
        device: device to compute on.
        option: name of the option in errors.
    """
    from rankgrad.text import BiEncoderRanker, CrossEncoderRanker
    from rankgrad.text.model import TextModel

    check_exists(option, name)
    if is_model(name):
        found = load_model(Path(name), device)
        if not isinstance(found, TextModel):
            bad_value(
                option, "be a text ranker, written by `rankgrad text train`", f"{name}, a ranker that uses features"
            )
        return found
    try:
        kind = CrossEncoderRanker if _classifies(name) else BiEncoderRanker
        return kind(name, device=check_device(device)).fitted()
    except Problems as error:  # the name of the argument of the ranker is `encoder`
        raise error.renamed("encoder", option) from error


def load_bi_encoder(name: str, device: str) -> "BiEncoderRanker":
    """Return a bi-encoder: a model of rankgrad, or a pretrained encoder."""
    from rankgrad.text import BiEncoderRanker

    check_exists("encoder", name)
    if is_model(name):
        return BiEncoderRanker.load(name, check_device(device))
    return BiEncoderRanker(name, device=check_device(device))


def embeddings_of(folder: "IndexFolder", collection: "Collection", ranker: "BiEncoderRanker", keep: bool) -> Any:
    """Return the embeddings of all documents, `(documents, width)`, from the index folder if they are saved there.

    Args:
        folder: index folder.
        collection: collection of the folder.
        ranker: bi-encoder.
        keep: True to write the embeddings to the index folder, if the folder does not contain them.
    """
    import numpy as np

    from rankgrad.atomic_files import writing

    found = kept_embeddings(folder, collection, ranker.fitted())
    if found is None:
        found = _encoded(collection, ranker)
        if keep:
            with writing(_embeddings_path(folder.path, collection, ranker.fitted())) as file:
                np.save(file, found, allow_pickle=False)
                file.write(_digest(found))  # NumPy ignores what follows an array
    return found


def kept_embeddings(folder: "IndexFolder", collection: "Collection", model: "TextModel") -> Any:
    """Return the embeddings of all documents that `rankgrad text search --keep` saved for this model, or None."""

    from rankgrad.cli.text.index_folder import EMBEDDINGS

    if not (folder.path / EMBEDDINGS).is_dir():
        return None
    path = _embeddings_path(folder.path, collection, model)
    return _read_embeddings(path, len(collection.documents)) if path.is_file() else None


def _read_embeddings(path: Path, documents: int) -> "NDArray[Any]":
    """Read the embeddings that `embeddings_of` wrote, and check their hash. Files of version 0.2 have no hash."""
    import numpy as np

    must = "be unchanged since it was written (remove the file: the next search encodes the documents again)"
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        bad_value(str(path), must, f"the error {error}")
    end = found.offset + found.nbytes
    with path.open("rb") as file:
        file.seek(end)
        known = file.read()
    if found.ndim != 2 or len(found) != documents or (known and known != _digest(found)):
        bad_value(str(path), must, "different content")
    return found


def _digest(embeddings: "NDArray[Any]") -> bytes:
    import hashlib

    import numpy as np

    found = hashlib.sha256(f"{embeddings.dtype.str}{embeddings.shape}".encode())
    found.update(embeddings.reshape(-1).view(np.uint8).data)
    return found.digest()


def _encoded(collection: "Collection", ranker: "BiEncoderRanker") -> "NDArray[Any]":
    import numpy as np

    from rankgrad.cli.progress import Progress

    documents, parts = collection.documents, []
    with Progress("encoding", every=10) as progress:
        starts = range(0, len(documents), BLOCK)
        for number, start in enumerate(starts, 1):
            end = min(start + BLOCK, len(documents))
            parts.append(ranker.encode([documents.full(place) for place in range(start, end)]))
            progress.at("blocks of documents encoded", number, len(starts))
    return np.concatenate(parts)


def _embeddings_path(folder: Path, collection: "Collection", model: "TextModel") -> Path:
    """Return the file in an index folder with the embeddings of these documents by this encoder."""
    from rankgrad.cli.text.index_folder import EMBEDDINGS, fingerprint
    from rankgrad.text import TextSettings

    settings = TextSettings.of(model.settings)
    options = [str(getattr(settings, name)) for name in ("max_length", "passages", "max_document")]
    key = fingerprint([model.weights_hash(), *options, collection.documents.content_hash])
    return folder / EMBEDDINGS / f"{key}.npy"


def _classifies(name: str) -> bool:
    """Return True for an encoder with a classification head, which is a cross-encoder."""
    from rankgrad.settings.text import STATIC, check_encoder
    from rankgrad.text.encoder_loading import EncoderFiles

    check_encoder(name)
    if name.startswith(STATIC) or (Path(name).expanduser() / "0_StaticEmbedding").is_dir():
        return False
    kinds = EncoderFiles(name).config().architectures or ()
    return any(str(kind).endswith("ForSequenceClassification") for kind in kinds)

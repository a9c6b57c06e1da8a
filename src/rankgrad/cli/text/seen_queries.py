"""Find the queries that text runs used in training or validation, and warn if a result is measured on them."""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from rankgrad.cli.text.training_lists import KEPT, TextLists


def warn_if_seen(models: Iterable[str | Path | None], measured: Mapping[str, str]) -> None:
    """Warn if text runs, their teachers or their initial models were trained or validated on measured queries.

    Args:
        models: folders or names of models and encoders. A model that no text run wrote is ignored.
        measured: text of each measured query, by id.
    """
    names, found = [], set()
    for folder, lists in _all_runs(models).items():
        try:
            seen = measured.items() & _seen_by(lists).items()
        except (OSError, ValueError):
            text = f"the training queries of {folder} are unknown: this run or the index {lists.index} cannot be read"
            warnings.warn(text, stacklevel=2)
            continue
        if seen:
            names.append(f"{folder} ({'no fold' if lists.fold is None else f'fold {lists.fold} of {lists.folds}'})")
            found |= seen
    if found:
        text = f"{len(found):,} of {len(measured):,} measured queries were used in the training of {', '.join(names)}"
        warnings.warn(text, stacklevel=2)


def _all_runs(models: Iterable[str | Path | None]) -> dict[Path, TextLists]:
    """Return the text runs among models, by folder. Include the runs of their teachers and of their initial models."""
    from rankgrad.cli.text.text_models import is_model
    from rankgrad.models.folder import read_config
    from rankgrad.settings.text import STATIC
    from rankgrad.text.encoder_files import ENCODER

    found: dict[Path, TextLists] = {}
    waiting = [*models]
    while waiting:
        if (model := waiting.pop(0)) is None:
            continue
        folder = Path(str(model).removeprefix(STATIC)).expanduser()
        folder = folder.parent if folder.name == ENCODER else folder
        if folder in found or not (folder / KEPT).is_file():
            continue
        found[folder] = lists = TextLists.kept(folder)
        settings = read_config(folder).get("settings", {}) if is_model(folder) else {}
        waiting += [lists.teacher, lists.init_model, settings.get("encoder")]
    return found


def _seen_by(lists: TextLists) -> dict[str, str]:
    """Return the text of each query in the training and validation lists of a text run, by id.

    Without a teacher, only queries with labels count. A run with pseudo queries uses real queries only for validation.
    """
    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.text.candidates import fold_roles

    if lists.pseudo and lists.fold is None:
        return {}
    queries, qrels = (None if path is None else Path(path) for path in (lists.queries, lists.qrels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the run itself issued these warnings
        judged, texts = IndexFolder.open(Path(lists.index)).labels(queries, qrels)
    seen = set(texts)
    if lists.fold is not None:
        roles = ("validation",) if lists.pseudo else ("train", "validation")
        seen = {query for query, role in fold_roles(texts, lists.fold, lists.folds).items() if role in roles}
    return {query: text for query, text in texts.items() if query in seen and (query in judged or lists.teacher)}

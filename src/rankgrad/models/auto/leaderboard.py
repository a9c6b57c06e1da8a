"""The leaderboard of a search, with one row per candidate, and the line that is printed after each training."""

from typing import Any

import numpy as np

from rankgrad.models.auto import ensemble
from rankgrad.models.auto.search import AutoSearch, Entry


def progress_line(search: AutoSearch, entry: Entry) -> str:
    """Return the line about a candidate that the search prints after each training.

    Args:
        search: the search.
        entry: candidate that was trained.
    """
    about = f"{entry.candidate.name} {entry.candidate.model} {entry.candidate.loss}"
    if entry.error is not None:
        return f"{about}: failed: {entry.error}"
    assert entry.values is not None
    value = ensemble.mean(entry.values) * (1.0 if search.higher_is_better else -1.0)
    return f"{about}: {search.settings.metric} {value:.4f}, fold {len(entry.fits)} of {search.folds}"


def entry_rows(search: AutoSearch) -> list[dict[str, Any]]:
    """Return the leaderboard as JSON values: first the candidates with all folds, then the other candidates.

    In both groups, the best candidate is first.

    Args:
        search: search with at least one finished training.
    """
    rows = []
    sign = 1.0 if search.higher_is_better else -1.0
    for entry in search.entries.values():
        known = entry.values[~np.isnan(entry.values)] if entry.values is not None else np.zeros(0)
        error = float(known.std(ddof=1) / len(known) ** 0.5) if len(known) > 1 else 0.0
        value = float(known.mean()) if len(known) else None
        rows.append(
            {
                "candidate": entry.candidate.name,
                "family": entry.candidate.family,
                "model": entry.candidate.model,
                "loss": entry.candidate.loss,
                "value": None if value is None else sign * value,
                "interval": None if value is None else [sign * value - 1.96 * error, sign * value + 1.96 * error],
                "folds": sum(fit.error is None for fit in entry.fits.values()),
                "seconds": round(entry.seconds, 2),
                "note": f"failed: {entry.error}"
                if entry.error
                else entry.note or ("" if entry.fits else "not started"),
                "settings": entry.candidate.settings,
            }
        )
    complete = search.folds
    worst = -sign * np.inf
    return sorted(
        rows, key=lambda row: (row["folds"] < complete, -sign * (worst if row["value"] is None else row["value"]))
    )

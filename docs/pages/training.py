"""Page about training: quality on MQ2008, and speed."""

from typing import Any

from .measurements import read, where
from .templates import fill, table


def page() -> str:
    """Return the page."""
    found = read("mq2008-training")
    settings = {
        name: ", ".join(f"`{key}={value}`" for key, value in values.items())
        for name, values in found["settings"].items()
    }
    return fill(
        "training",
        seeds=str(found["seeds"]),
        settings="; ".join(f"`{name}`: {values}" for name, values in settings.items()),
        machine=where(found),
        quality_table=_quality_table(found["rows"]),
        gpu=_speed("training-gpu", title="On one GPU", size="WEB30K-shaped lists", gpu=True),
        cpu=_speed("training-cpu", title="On two CPU cores", size="A twentieth of WEB30K's lists", gpu=False),
    )


def _quality_table(found: list[dict[str, Any]]) -> str:
    rows = []
    for row in found:
        numbers = [f"{row[key]:.2f}" for key in ("empty one", "spread", "empty zero", "seconds a run")]
        rows.append([row["ranker"], f"`{row['loss']}`", *numbers])
    head = ["ranker", "loss", "NDCG@10, empty = 1", "sd over seeds", "NDCG@10, empty = 0", "seconds per run"]
    return table(head, rows)


def _speed(file: str, *, title: str, size: str, gpu: bool) -> str:
    """Return the section about speed on one machine."""
    found = read(file)
    facts, request = found["setting"], found["requests"][0]
    # On a GPU parts are timed eagerly, but an epoch is recorded: a share would mean nothing.
    heading = (
        "Each part separately, without a CUDA graph, in seconds per epoch:"
        if gpu
        else "Each part separately, in seconds per epoch:"
    )
    return fill(
        "training-speed",
        title=title,
        size=size,
        lists=f"{facts['lists']:,}",
        documents=f"{facts['documents']:,}",
        machine=where(facts),
        file=file,
        runs_table=_runs_table(found),
        parts_heading=heading,
        parts_table=_parts_table(found["parts"], shares=not gpu),
        load_ms=f"{request['load, ms']:.0f}",
        requests_table=_requests_table(request),
    )


def _runs_table(found: dict[str, Any]) -> str:
    every = f"{found['setting']['epochs']} epochs in total"
    rows = []
    for run in found["runs"]:
        seconds = [f"{run[key]:.2f} s" for key in ("first epoch", "epoch", "validation", "run")]
        rows.append([run["model"], *seconds, f"{run['peak GB']:.1f} GB"])
    return table(["ranker", "first epoch", "epoch", "validation", every, "peak memory"], rows)


def _parts_table(parts: list[dict[str, Any]], *, shares: bool) -> str:
    head = ["ranker", "ranker and optimiser", "loss", "batches"]
    rows = [[row["model"], *(f"{row[key]:.2f} s" for key in head[1:])] for row in parts]
    if shares:
        head.append("share of the epoch that is not the ranker's")
        for cells, row in zip(rows, parts, strict=True):
            cells.append(f"{row['all but the ranker, share of the epoch']:.0%}")
    return table(head, rows)


def _requests_table(request: dict[str, Any]) -> str:
    known = [each for each in ("mlp 1024", "LightGBM 300 trees") if f"{each}, p50 us" in request]
    rows = [[each, *(f"{request[f'{each}, {kind} us']:.0f} us" for kind in ("p50", "p99", "first"))] for each in known]
    return table(["model", "p50", "p99", "first"], rows)

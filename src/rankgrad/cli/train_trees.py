"""`rankgrad train --model lightgbm` or `xgboost`: the same command, with trees for a ranker."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.cli.sources import Source

# What a setting of a run is called for trees; the others of `rankgrad train` mean nothing to them.
NAMES = {
    "loss": "loss",
    "epochs": "trees",
    "patience": "patience",
    "metric": "metric",
    "seed": "seed",
    "loss_lr": "loss_lr",
}
RATE = {"lightgbm": "learning_rate", "xgboost": "eta"}


def is_tree(model: str | None) -> bool:
    """Whether the model is one of boosted trees."""
    return (model or "").partition(":")[0].strip().lower() in RATE


def train_trees(console: "Console", parameters: dict[str, Any], source: "Source | None", out: Path) -> None:
    """Train trees, keep as many as were best on validation, measure them on test."""
    from rankgrad.cli.checks import only_run, together
    from rankgrad.errors import bad_value
    from rankgrad.lock import LOCK

    def free() -> None:
        if parameters["resume"]:
            bad_value("resume", "be for neural rankers; trees are trained again", "--resume")
        if out.exists() and (not out.is_dir() or any(path.name != LOCK for path in out.iterdir())):
            bad_value("out", "be a new folder", out)

    def named() -> None:
        if source is None:
            bad_value("data", "be given, to train on", "nothing")
        source.check()

    together(lambda: plan_of(parameters), named, free)
    assert source is not None
    with only_run(out):
        free()  # once more: another run may have ended since
        _run(console, plan_of(parameters), source, out)


def _run(console: "Console", plan: Any, source: "Source", out: Path) -> None:
    from rankgrad.cli.sources import telling
    from rankgrad.cli.tables import METRICS, print_metrics
    from rankgrad.training.model import write_metrics
    from rankgrad.trees.boosting import boost

    with telling(f"reading {source.data}"):
        parts = source.hold_out(source.read())
    for name, part in parts.items():
        console.print(f"{name}: {len(part):,} lists, {len(part.labels):,} documents", markup=False)
    console.print(f"training {plan.framework} with {plan.loss}, seed {plan.seed}", markup=False)
    model = boost(plan, parts["train"], parts.get("validation"))
    best = "".join(f", {name} {value:.4f} on validation" for name, value in model.metrics.get("validation", {}).items())
    console.print(f"kept {model.metrics['trees']} of {len(model.history) or plan.trees} trees{best}", markup=False)
    model.save(out)
    source.keep(out)
    if "test" in parts:
        result = model.evaluate(parts["test"], METRICS)
        write_metrics(out, {**model.metrics, "test": result.means})
        console.print(f"\non {len(parts['test']):,} test lists:")
        print_metrics(result.rows(), result.notes())
    console.print(f"model: {out}", markup=False)
    console.print(f"next:  rankgrad predict {shlex.quote(str(out))} FILE --out scores.txt", markup=False)


def plan_of(parameters: dict[str, Any]) -> Any:
    """What the command line says, as a plan for trees; a setting that trees do not have is an error."""
    from rankgrad.cli.train import _read
    from rankgrad.errors import bad_value
    from rankgrad.training import Settings
    from rankgrad.trees.settings import ranker

    model = parameters["model"]
    framework = model.partition(":")[0].strip().lower()
    given = {name: value for name in Settings.names() if (value := parameters[name])}
    said = {"model": given.pop("model")}
    if "lr" in given:
        said[RATE[framework]] = _read(given.pop("lr"))
    for name in given:
        if name not in (*NAMES, "device"):
            bad_value(name, f"not be given with {framework}, which has no such setting", repr(given[name]))
    said |= {NAMES[name]: v if name in ("loss", "metric") else _read(v) for name, v in given.items() if name in NAMES}
    return ranker(said).plan()

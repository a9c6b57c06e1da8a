"""`rankgrad pretrain-loss`: trains the network of NeuralLoss on generated lists."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankgrad.cli.option_groups import AsJson, Device
from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.surrogate.fidelity import FidelityRow


def pretrain_loss(
    out: Annotated[Path, typer.Option(help="Folder for weights and checkpoint.", show_default=False)],
    form: Annotated[str, typer.Option(help="mended (corrected form), or published (form of the paper).")] = "mended",
    grades: Annotated[int, typer.Option(help="Number of different labels: 3 (0 to 2) or 5 (0 to 4).")] = 5,
    lists: Annotated[
        int | None, typer.Option(help="Lists per epoch (default: 51200; with --form published: 220000).")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Number of epochs.")] = 20,
    batch: Annotated[
        int | None, typer.Option(help="Lists per batch (default: 128; with --form published: 512).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of weights and lists.")] = 0,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a network that replaces the metric in NeuralLoss, and print how well the network agrees with the metric.

    The package already contains such networks, so this command is optional. Each training step uses new generated
    lists.

    Example: `rankgrad pretrain-loss --out runs/loss`, then `rankgrad train --loss neuralloss:path=runs/loss ...`
    """
    from rankgrad.cli.argument_checks import check_device, only_run, together
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.overwrite import check_overwrite, remove_run
    from rankgrad.cli.progress import Progress
    from rankgrad.run.checkpoint import LAST
    from rankgrad.surrogate import PretrainSpec, fidelity, pretrain
    from rankgrad.surrogate.pretrain import keep_fidelity

    plan = PretrainSpec(form, grades, lists, epochs, batch, seed)

    def is_new() -> None:
        if overwrite and resume:
            bad_value("overwrite", "not be given with --resume", "both")
        if overwrite:
            check_overwrite(out)
        elif (out / LAST).exists() and not resume:
            bad_value("out", "be a new folder (or add --resume or --overwrite)", f"{out}, which contains a run")

    together(plan.check, lambda: check_device(device), is_new)
    chosen = check_device(device)
    console = messages(as_json)
    console.print(f"{form}, {grades} grades: {epochs} epochs of {plan.recipe.lists:,} lists on {chosen}", markup=False)
    try:
        with only_run(out), Progress("epochs") as progress:
            if overwrite:
                remove_run(out)
            network = pretrain(
                plan,
                out,
                device=chosen,
                resume=resume,
                tell=lambda epoch, error: progress.at(f"root mean squared error {error:.4f}", epoch, epochs),
            )
            rows = fidelity(network, target=plan.recipe.target, grades=grades, device=chosen)
            keep_fidelity(out, plan, rows)
    except KeyboardInterrupt:
        typer.echo("\nStopped. The same command with --resume resumes after the last complete epoch.", err=True)
        raise typer.Exit(130) from None
    _print(rows, console)
    console.print(f"weights: {out}", markup=False)
    console.print(f"next:    rankgrad train --loss neuralloss:path={shlex.quote(str(out))} ...", markup=False)
    if as_json:
        print_json({"weights": out, "fidelity": [row._asdict() for row in rows]})


def _print(rows: "list[FidelityRow]", console: "Console") -> None:
    from rankgrad.cli.terminal_tables import print_names

    lines = []
    for whole in (row for row in rows if row.shape == "all"):
        least = min((row for row in rows if row.length == whole.length), key=lambda row: row.dcg)
        lines.append((str(whole.length), f"{whole.dcg:.4f}", f"{least.dcg:.4f} ({least.shape})", f"{whole.ndcg:.4f}"))
    notes = (
        "Spearman correlation of the network's value with the exact metric, on lists that were not used for training.",
    )
    print_names(("documents", "with DCG", "worst shape of scores", "with NDCG"), lines, notes, console)

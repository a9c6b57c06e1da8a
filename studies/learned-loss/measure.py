"""When does a learned loss help? `python studies/learned-loss/measure.py --out FOLDER [--jobs 16] [--join FILE]`.

Protocol, written before the runs.

Question: rankers are trained with an NDCG loss with the gain 2^y - 1 and the discount log2(1 + rank). They are judged
by an NDCG with another gain or another discount. Does a loss that learns its gain and discount (LearnDCG) reduce the
cost of this mismatch?

Data: generated lists of 20 documents with grades 0 to 4. The utility u of a document is a non-linear function of five
of its eight features. Its grade is that of u + sigma * e, where e is normal.
- `equal`: sigma is the same for all documents. Then the order by u is the best order for every gain and discount.
- `unequal`: sigma depends on a sixth feature. Then the best order depends on the gain: a document with a large sigma
  has a higher chance of the highest grade and also of the lowest grade. A steep gain prefers it; a flat gain does not.
Labels of test lists are drawn many times. An order is judged by the mean over the draws, so the best order is known: it
sorts by the mean of gain / ideal DCG. This holds for every discount that grows with the rank, so a discount changes the
best order only through the ideal DCG. Regret is the value of the best order minus the value of the ranker's order.

Rankers: `linear`, which cannot represent u, and an `mlp`. Training lists: 50, 200 and 1,000, and half as many
validation lists. Ten seeds: a seed draws the training and validation lists and the weights. All seeds share the test
lists. Every run has the same steps, learning rate and batches. Validation lists choose the step at which a ranker is
judged, by the judging metric.

Losses: `fixed` (LearnDCG with fixed scalars: ApproxNDCG), `joint` (as printed), `joint, curved`, `held out` (curved;
scalars trained by the standard NDCG of held-out lists), `held out, judge` (the same with the judging metric instead of
the standard NDCG), `chosen` (validation chooses one of five fixed combinations of gain and discount, by the judging
metric), `exact` (the loss with the judging gain and discount); `softmax` and `lambdaloss` for reference.

Expected:
1. `equal`: a mismatch of the gain or of the discount costs little, and no learned form differs much from `fixed`.
2. `unequal`: a mismatch of the gain costs more, the further the judging gain is from 2^y - 1; `exact` has the lowest
   regret. The joint forms do not know the judge. Their gain base falls, so they are better than `fixed` for flatter
   gains and worse for steeper gains.
3. `held out` with the standard NDCG is like `fixed`. `held out, judge` comes close to `exact` with 1,000 lists, and not
   with 50, of which ten are held out.
4. A mismatch of the discount costs little, and only with the linear ranker.
5. `chosen` is as good as `held out, judge`.

Tests: each loss against `fixed`, for each judge, kind of data, ranker and number of lists, with test lists and seeds
both random, and Holm's correction over all losses and judges of one kind, ranker and number of lists. A seed has the
same training lists and initial weights for all losses, so a test is over the differences per seed and test list. Also
`held out, judge` against `chosen`, with Holm's correction over the judges.

Set in pilot runs with other seeds (`PILOT`, `unequal`), after these expectations were written: the learning rates, the
rate of the scalars, the number of steps, and how unequal the noise is (with less, even the best order of the standard
NDCG lost at most 0.4 points by a power gain). These runs agreed with expectation 2 for 1,000 lists.

One file per cell; a second call continues. `--join FILE` writes one compressed file, from which the page is
made.
"""

import argparse
import itertools
import json
import lzma
import math
import os
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

KINDS = {"equal": 0.0, "unequal": 1.0}  # standard deviation of log sigma
RANKERS = {"linear": {"lr": 0.1}, "mlp": {"lr": 0.03}}
WIDTHS = [32, 16]
SIZES = (50, 200, 1000)
SEEDS = tuple(range(10))
PILOT = (100, 101)  # seeds of the pilot runs
DOCUMENTS, FEATURES = 20, 8  # per list
SHARES = (0.5, 0.25, 0.13, 0.08, 0.04)  # of the grades
SIGMA = 0.7  # median of sigma; the utility has standard deviation 1
TEST_LISTS, DRAWS = 1000, 400
STEPS, EVERY, BATCH = 300, 20, 25
LOSS_LR = 0.05  # learning rate of the scalars
HELD_OUT = 5  # one list of five


class Judge(NamedTuple):
    """A judging metric: NDCG of the whole list with this gain and this discount."""

    name: str
    gain: Callable[[Any], Any]
    discount: Callable[[Any], Any]
    differs: str  # "gain", "discount" or "" for the standard NDCG
    place: int  # position on the axis of the figure; the standard NDCG is at 0


def _power(base: float) -> Callable[[Any], Any]:
    return lambda labels: base**labels - 1


def _log(ranks: Any) -> Any:
    return (1 + ranks).log2()


def _flat(ranks: Any) -> Any:
    return (1 + 63 * ranks).log() / math.log(64)  # LearnDCG's curved discount with b_d = 64


STANDARD = Judge("standard", _power(2), _log, "", 0)
JUDGES = (
    Judge("any grade above 0", lambda labels: (labels > 0).to(labels.dtype), _log, "gain", -2),
    Judge("gain y", lambda labels: labels, _log, "gain", -1),
    STANDARD,
    Judge("gain 8^y - 1", _power(8), _log, "gain", 1),
    Judge("grade 4 only", lambda labels: (labels >= 4).to(labels.dtype), _log, "gain", 2),
    Judge("discount rank", _power(2), lambda ranks: 1.0 * ranks, "discount", 1),
    Judge("discount flat", _power(2), _flat, "discount", -1),
)
LOSSES = {  # those that do not depend on the judge
    "fixed": "learndcg:learn=none",
    "joint": "learndcg",
    "joint, curved": "learndcg:discount=curved",
    "held out": "learndcg:discount=curved,adapt=heldout",
    "softmax": "softmax",
    "lambdaloss": "lambdaloss",
}
JUDGED = "held out, judge"
METHODS = ("fixed", "joint", "joint, curved", "held out", JUDGED, "chosen", "exact", "softmax", "lambdaloss")
CHOICES = tuple(judge.name for judge in JUDGES if "grade" not in judge.name)  # of `chosen`: those LearnDCG can have


class StudyCell(NamedTuple):
    """All losses and judges on one training set with one ranker."""

    kind: str
    ranker: str
    lists: int
    seed: int

    @property
    def file(self) -> str:
        """Name of the result file."""
        return "_".join(map(str, self)) + ".npz"


class GeneratedLists(NamedTuple):
    """Lists of equal length."""

    features: Any  # (lists, documents, features)
    labels: Any  # (lists, documents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--rankers", nargs="*", default=list(RANKERS), choices=RANKERS)
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--join", type=Path, help="compressed file of all results")
    options = parser.parse_args()
    cells = [
        StudyCell(kind, ranker, lists, seed)
        for kind, ranker, lists, seed in itertools.product(
            options.kinds, options.rankers, sorted(options.sizes, reverse=True), options.seeds
        )
    ]
    run_all(cells, options.out, options.jobs)
    if options.join:
        options.join.write_bytes(lzma.compress(json.dumps(joined(cells, options.out)).encode(), preset=9))
        print(f"{options.join}: {options.join.stat().st_size:,} bytes")


def run_all(cells: list[StudyCell], out: Path, jobs: int) -> None:
    """Run the cells that have no result file."""
    from rankgrad.parallel.process_pool import Pool, Task

    out.mkdir(parents=True, exist_ok=True)
    left = [cell for cell in cells if not (out / cell.file).exists()]
    began = time.perf_counter()
    with Pool(jobs) as pool:
        tasks = [Task(cell.file, run_cell, (cell, out), affinity=cell.kind) for cell in left]
        for number, done in enumerate(pool.run(tasks), start=1):
            if done.error:
                raise RuntimeError(f"{done.task.name}: {done.error}")
            print(f"{number}/{len(left)} {done.task.name}: {done.value:.1f} s", flush=True)
    print(f"{len(left)} cells in {time.perf_counter() - began:.0f} s, {jobs} processes", flush=True)


# Data


def utility(x: Any) -> Any:
    """Return the utility of documents from their features; its standard deviation is 1."""
    squares, product = (x[..., 2] ** 2 - 1) / math.sqrt(2), x[..., 3] * x[..., 4]
    return 0.6 * x[..., 0] + 0.5 * x[..., 1] + 0.4 * squares + 0.48 * product


def noise_scale(x: Any, kind: str) -> Any:
    """Return sigma of documents; its median is the same for both kinds of data."""
    return SIGMA * np.exp(KINDS[kind] * x[..., 5])


@lru_cache
def thresholds(kind: str) -> Any:
    """Return the limits between the grades, which give the shares of the grades."""
    rng = np.random.default_rng([7, sorted(KINDS).index(kind)])
    x = rng.standard_normal((200_000, FEATURES))
    noisy = utility(x) + noise_scale(x, kind) * rng.standard_normal(len(x))
    return np.quantile(noisy, np.cumsum(SHARES)[:-1])


def draw_labels(rng: Any, x: Any, kind: str, draws: int | None = None) -> Any:
    """Draw the grades of documents, `(lists, documents)`, or `(draws, lists, documents)`."""
    shape = x.shape[:-1] if draws is None else (draws, *x.shape[:-1])
    noisy = utility(x) + noise_scale(x, kind) * rng.standard_normal(shape)
    return np.searchsorted(thresholds(kind), noisy)


def generated(kind: str, lists: int, seed: int, part: int) -> GeneratedLists:
    """Generate training lists (part 0) or validation lists (part 1)."""
    import torch

    rng = np.random.default_rng([seed, part, lists, sorted(KINDS).index(kind)])
    x = rng.standard_normal((lists, DOCUMENTS, FEATURES))
    labels = draw_labels(rng, x, kind)
    return GeneratedLists(torch.tensor(x, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32))


@lru_cache
def test_lists(kind: str) -> tuple[Any, dict[str, Any]]:
    """Return the features of the test lists, and per judge the mean of gain / ideal DCG of each document."""
    import torch

    rng = np.random.default_rng([11, sorted(KINDS).index(kind)])
    x = rng.standard_normal((TEST_LISTS, DOCUMENTS, FEATURES))
    total = {judge.name: torch.zeros(TEST_LISTS, DOCUMENTS, dtype=torch.float64) for judge in JUDGES}
    for _ in range(0, DRAWS, 50):
        labels = torch.tensor(draw_labels(rng, x, kind, 50), dtype=torch.float64)
        best = labels.sort(-1, descending=True).values  # all gains grow with the label
        for judge in JUDGES:
            total[judge.name] += shares(judge, labels, best).sum(0)
    return torch.tensor(x, dtype=torch.float32), {name: each / DRAWS for name, each in total.items()}


def shares(judge: Judge, labels: Any, best: Any) -> Any:
    """Return gain / ideal DCG of each document; 0 in a list without gain. `best` has the labels in descending order."""
    import torch

    ranks = torch.arange(1, DOCUMENTS + 1, dtype=labels.dtype)
    ideal = (judge.gain(best) / judge.discount(ranks)).sum(-1, keepdim=True)
    return torch.where(ideal > 0, judge.gain(labels) / torch.where(ideal > 0, ideal, 1.0), 0.0)


def judged(judge: Judge, scores: Any, share: Any) -> Any:
    """Return the value of the order by `scores` per list, `(lists,)`."""
    import torch

    order = scores.argsort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(1, DOCUMENTS + 1, dtype=share.dtype)
    return (share.gather(-1, order) / judge.discount(ranks)).sum(-1)


# Training


def run_cell(cell: StudyCell, out: Path) -> float:
    """Train with every loss, and write the value of every test list, by loss and judge."""
    import torch

    torch.set_num_threads(1)
    began = time.perf_counter()
    found, steps, learned = values_of(cell)
    path = out / cell.file
    part = path.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as file:
        seconds = time.perf_counter() - began
        np.savez_compressed(file, values=found, steps=steps, learned=learned, seconds=seconds)
    part.rename(path)
    return time.perf_counter() - began


def values_of(cell: StudyCell) -> tuple[Any, Any, Any]:
    """Return values `(methods, judges, lists)`, chosen steps `(methods, judges)` and scalars `(methods, judges, 3)`."""
    import torch

    from rankgrad import losses

    values = np.zeros((len(METHODS), len(JUDGES), TEST_LISTS), dtype=np.float32)
    steps, learned = np.zeros(values.shape[:2], dtype=int), np.full((*values.shape[:2], 3), np.nan, dtype=np.float32)
    chosen: dict[tuple[str, str], Run] = {}
    for name, text in LOSSES.items():
        runs = trained(cell, losses.parse_loss(text), STANDARD)
        chosen |= {(name, judge.name): runs[judge.name] for judge in JUDGES}
    # With the standard NDCG as the judge, these two are `fixed` and `held out`.
    exact = {STANDARD.name: {judge.name: chosen["fixed", judge.name] for judge in JUDGES}}
    chosen["exact", STANDARD.name] = chosen["fixed", STANDARD.name]
    chosen[JUDGED, STANDARD.name] = chosen["held out", STANDARD.name]
    for judge in JUDGES:
        if judge is not STANDARD:
            exact[judge.name] = trained(cell, soft_metric(judge, 1.0), judge)
            chosen["exact", judge.name] = exact[judge.name][judge.name]
            chosen[JUDGED, judge.name] = trained(cell, losses.parse_loss(LOSSES["held out"]), judge)[judge.name]
    for judge in JUDGES:
        every = [exact[name][judge.name] for name in CHOICES]
        chosen["chosen", judge.name] = max(every, key=lambda run: run.validation)
    for (i, name), (j, judge) in itertools.product(enumerate(METHODS), enumerate(JUDGES)):
        run = chosen[name, judge.name]
        values[i, j], steps[i, j] = run.test, run.step
        learned[i, j] = run.learned
    assert torch.isfinite(torch.tensor(values)).all()
    return values, steps, learned


class Run(NamedTuple):
    """A ranker at the step that validation chose by a judge."""

    validation: float
    step: int
    test: Any  # (lists,)
    learned: list[float]  # b_g, b_d, alpha; NaN if the loss has none


def soft_metric(judge: Judge, temperature: float) -> Callable[..., Any]:
    """Return the negative judging metric with sigmoid ranks."""
    from rankgrad.losses import relaxed
    from rankgrad.metrics import nDCG
    from rankgrad.relax import sigmoid_ranks

    return relaxed(nDCG(gain=judge.gain, discount=judge.discount), sigmoid_ranks(temperature))


def trained(cell: StudyCell, loss: Any, goal: Judge) -> dict[str, Run]:
    """Train a ranker; return for each judge the run at the step that validation chose. `goal` is for held-out lists."""
    import torch

    from rankgrad import rankers
    from rankgrad.training.batch_loading import Batch
    from rankgrad.training.hypergradient import TEMPERATURE, heldout_gradient, step_scale

    lists, check = generated(cell.kind, cell.lists, cell.seed, 0), generated(cell.kind, cell.lists // 2, cell.seed, 1)
    test, share = test_lists(cell.kind)
    best = check.labels.sort(-1, descending=True).values
    check_share = {judge.name: shares(judge, check.labels, best) for judge in JUDGES}
    torch.manual_seed(cell.seed)
    widths = WIDTHS if cell.ranker == "mlp" else []
    ranker = rankers.build("mlp", features=FEATURES, widths=widths)
    rng = np.random.default_rng(cell.seed)
    heldout = getattr(loss, "adapt", "joint") == "heldout"
    scalars = [each for each in loss.parameters() if each.requires_grad] if isinstance(loss, torch.nn.Module) else []
    groups = [{"params": [*ranker.parameters()], "base": RANKERS[cell.ranker]["lr"]}]
    if scalars and not heldout:
        groups.append({"params": scalars, "base": LOSS_LR})
    optimiser = torch.optim.Adam(groups, lr=0.0)
    outer = torch.optim.Adam(scalars, lr=LOSS_LR) if heldout else None
    own = torch.arange(cell.lists)
    held = own[::HELD_OUT] if heldout else own[:0]
    kept = own[own % HELD_OUT != 0] if heldout else own
    metric = soft_metric(goal, TEMPERATURE)

    def batch_of(numbers: Any) -> Batch:
        offsets = torch.arange(len(numbers) + 1) * DOCUMENTS
        return Batch(lists.features[numbers].flatten(0, 1), lists.labels[numbers].flatten(), offsets, None, DOCUMENTS)

    @torch.no_grad()
    def scores_of(x: Any) -> Any:
        offsets = torch.arange(len(x) + 1) * DOCUMENTS
        return ranker(x.flatten(0, 1), offsets, width=DOCUMENTS).view(x.shape[:2])

    batches, held_batches = _endless(kept, rng), _endless(held, rng)
    found: dict[str, Run] = {}
    for step in range(1, STEPS + 1):
        decay = 1 - (step - 1) / STEPS
        for group in optimiser.param_groups:
            group["lr"] = group["base"] * decay
        batch = batch_of(next(batches))
        before = [weight.detach().clone() for weight in ranker.parameters()]
        optimiser.zero_grad()
        scores = ranker(batch.features, batch.offsets, width=DOCUMENTS)
        loss(scores, batch.labels, offsets=batch.offsets).backward()
        optimiser.step()
        if outer is not None:
            out = batch_of(next(held_batches))
            sizes = len(batch.offsets) - 1, len(out.offsets) - 1
            slopes = heldout_gradient(
                ranker, loss, before, step_scale(optimiser), batch, sizes[0], out, sizes[1], goal=metric
            )
            for name, parameter in loss.named_parameters():
                parameter.grad = slopes[name].to(parameter.dtype)
            outer.param_groups[0]["lr"] = LOSS_LR * decay
            outer.step()
        if step % EVERY == 0:
            on_check, on_test = scores_of(check.features), None
            for judge in JUDGES:
                value = float(judged(judge, on_check, check_share[judge.name]).mean())
                if judge.name not in found or value > found[judge.name].validation:
                    on_test = scores_of(test) if on_test is None else on_test
                    values = judged(judge, on_test, share[judge.name]).numpy()
                    learned = loss.learned() if hasattr(loss, "learned") else {}
                    found[judge.name] = Run(value, step, values, list(learned.values()) or [math.nan] * 3)
    return found


def _endless(numbers: Any, rng: Any) -> Any:
    """Yield batches of list numbers, in a new random order in each pass."""
    while len(numbers):
        order = numbers[rng.permutation(len(numbers))]
        yield from order.split(BATCH)


# Results


def joined(cells: list[StudyCell], out: Path) -> dict[str, Any]:
    """Return the regret of every loss, and its difference to `fixed`, with tests; for each kind, ranker and size."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from setting import setting

    from rankgrad.experiments.statistics import holm

    tables, seconds = [], 0.0
    for kind, ranker, lists in dict.fromkeys(cell[:3] for cell in cells):
        files = [np.load(out / cell.file) for cell in cells if cell[:3] == (kind, ranker, lists)]
        values = np.stack([file["values"] for file in files]).astype(float)  # (seeds, methods, judges, lists)
        learned = np.stack([file["learned"] for file in files])
        seconds += sum(float(file["seconds"]) for file in files)
        shared = test_lists(kind)[1]
        rows = []
        for (i, method), (j, judge) in itertools.product(enumerate(METHODS), enumerate(JUDGES)):
            best = judged(judge, shared[judge.name], shared[judge.name]).numpy()
            row: dict[str, Any] = {"loss": method, "judge": judge.name, "best": float(best.mean())}
            row["regret"] = [round(float(each), 6) for each in (best - values[:, i, j]).mean(-1)]
            scalars = learned[:, i, j]
            if not np.isnan(scalars).any():
                row["learned"] = np.median(scalars, 0).astype(float).round(3).tolist()
            row |= compared(values[:, i, j], values[:, 0, j])
            rows.append(row)
        both = values[:, METHODS.index(JUDGED)], values[:, METHODS.index("chosen")]
        pairs = [{"judge": judge.name, **compared(both[0][:, j], both[1][:, j])} for j, judge in enumerate(JUDGES)]
        for family in (rows, pairs):
            tested = [row for row in family if "p" in row]
            for row, p in zip(tested, holm([row["p"] for row in tested]).tolist(), strict=True):
                row["adjusted"] = p
        tables.append(
            {"kind": kind, "ranker": ranker, "lists": lists, "seeds": len(files), "rows": rows, "judge - chosen": pairs}
        )
    protocol = {"steps": STEPS, "batch": BATCH, "loss_lr": LOSS_LR, "test_lists": TEST_LISTS, "draws": DRAWS}
    orders = {kind: order_costs(kind) for kind in dict.fromkeys(cell.kind for cell in cells)}
    return {**setting(), **protocol, "seconds": round(seconds), "orders": orders, "tables": tables}


def order_costs(kind: str) -> dict[str, float]:
    """Return the regret of the best order of the standard NDCG, by judge."""
    shared, found = test_lists(kind)[1], {}
    for judge in JUDGES:
        best, standard = (judged(judge, shared[name], shared[judge.name]) for name in (judge.name, STANDARD.name))
        found[judge.name] = round(float((best - standard).mean()), 6)
    return found


def compared(mine: Any, other: Any) -> dict[str, Any]:
    """Test the difference of the regrets of two losses, `(seeds, lists)` each; nothing if their runs are the same.

    A seed has the same lists and initial weights for all losses, so the test is over the differences per seed.
    """
    from rankgrad.experiments.seed_variance import RunValues, compare_runs

    if np.array_equal(mine, other):
        return {}
    gaps = RunValues(other - mine)  # of the regrets: the value of the best order cancels
    test = compare_runs(gaps, RunValues(np.zeros_like(gaps.values)))
    found = {"difference": test.difference, "interval": list(test.interval), "detectable": test.detectable}
    return {name: np.round(value, 6).tolist() for name, value in found.items()} | {"p": test.p}


if __name__ == "__main__":
    main()

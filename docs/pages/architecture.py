"""The picture of the architecture page: the layers of the package, and the path of a batch through them.

Every name is a module or package of `rankgrad`. `tests/docs/test_architecture.py` checks that each exists, that no
layer is missing, and that imports go from a higher row to a lower one only. In the last row, modules import each other.
"""

from html import escape

from .templates import fill, table

# From the top: a row imports from the rows below it. In a row: package, what it holds.
LAYERS = (
    (("cli", "one file per command"),),
    (("experiments", "recipes, runs, tables, report, statistics, tuning"),),
    (("estimators", "Ranker, TreeRanker, AutoRanker, blend, text rankers"),),
    (("models.auto", "search for the best ranker"),),
    (("models.registry", "finds the kind of a ranker"), ("models.neural", "networks"),
     ("models.trees", "boosted trees"), ("models.blend", "blends"), ("models.text", "encoders")),
    (("trees", "LightGBM and XGBoost"), ("text", "collections, BM25, encoders"),
     ("surrogate", "pretraining of NeuralLoss")),
    (("training", "networks on Fabric"),),
    (("models.protocol", "what every ranker is"), ("settings", "each setting declared once")),
    (("run", "the loop of every training"),),
    (("losses", "plain PyTorch"), ("rankers", "features to scores")),
    (("data", "files to Dataset"), ("relax", "soft ranks, soft permutations")),
    (("kernels", "Numba and Triton"), ("metrics", "exact metrics")),
    (("lists", "layouts, checks, reductions"),),
    (("spec", "text grammar"), ("errors", "form of errors"), ("backend", "fused or plain"),
     ("atomic_files", "written whole or not at all"), ("parallel", "process pool, Ray")),
)  # fmt: skip

# The path of a batch: what it is there, the module that makes it, and one line about it.
PATH = (
    ("file", "data.letor.reader", "LETOR text, parsed in two passes"),
    ("Dataset", "data.dataset", "features, labels, offsets, query ids"),
    ("features", "data.preprocessing.pipeline", "fitted on the training lists"),
    ("schedule", "training.batch_schedule", "lists of each step, by seed and epoch"),
    ("batch", "training.batch_loading", "tensors on the device"),
    ("scores", "rankers.scorer", "one per document"),
    ("loss", "losses.pairwise", "reads like its equation"),
    ("options", "losses.fused", "chooses kernel or plain PyTorch"),
    ("kernel", "kernels.op", "value and slopes in one call"),
    ("weights", "training.loop", "one step of the optimiser"),
    ("metric", "metrics.evaluate", "on validation and test lists"),
    ("result", "experiments.runs.results", "one file per cell"),
    ("table", "experiments.tables.table", "means, spread, tests"),
)

WIDTH, ROW, GAP, LEFT = 960, 44, 8, 10


def page() -> str:
    """Return the page: the picture, and the path of a batch as a table with links to the modules."""
    rows = [[what, f"[`{name}`]({_source(name)})", about] for what, name, about in PATH]
    return fill("architecture", path=table(["step", "module", "what it does"], rows))


def _source(module: str) -> str:
    return f"../src/rankgrad/{module.replace('.', '/')}.py"


def picture() -> str:
    """Both parts as one SVG."""
    half = WIDTH // 2 - 20
    parts = [_text(LEFT, 24, "Layers: each imports from those below it", 15, "bold")]
    for number, row in enumerate(LAYERS):
        width = (half - GAP * (len(row) - 1)) / len(row)
        for at, (name, about) in enumerate(row):
            parts.append(_box(LEFT + at * (width + GAP), 40 + number * (ROW + GAP), width, name, about))
    left, tall = WIDTH // 2 + 20, (len(LAYERS) * (ROW + GAP) - GAP) / len(PATH) - GAP
    parts.append(_text(left, 24, "The path of a batch, with the module of each step", 15, "bold"))
    for number, (what, name, about) in enumerate(PATH):
        top = 40 + number * (tall + GAP)
        parts.append(_step(left, top, WIDTH - left - LEFT, tall, what, name, about))
        if number:
            x = left + 42
            parts.append(f'<path d="M{x} {top - GAP:.1f} v{GAP - 1}" stroke="#777" marker-end="url(#tip)"/>')
    height = 40 + len(LAYERS) * (ROW + GAP)
    tip = '<marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto">'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">'
        f"<title>Layers of rankgrad and the path of a batch</title>"
        f'<defs>{tip}<path d="M0 0 L6 3 L0 6 z" fill="#777"/></marker></defs>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _box(left: float, top: float, width: float, name: str, about: str) -> str:
    middle = left + width / 2
    frame = (
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW}" rx="5" fill="#eef3fa" stroke="#4c78a8"/>'
    )
    size = 9 if width < 130 else 11
    return (
        frame
        + _text(middle, top + 19, name, 13 if width > 130 else 11, "bold", "middle")
        + _text(middle, top + 36, about, size, anchor="middle")
    )


def _step(left: float, top: float, width: float, tall: float, what: str, name: str, about: str) -> str:
    frame = (
        f'<rect x="{left}" y="{top:.1f}" width="{width}" height="{tall:.1f}" rx="5" fill="#fbf3e8" stroke="#c17f2f"/>'
    )
    first, second = top + tall / 2 - 4, top + tall / 2 + 11
    return (
        frame
        + _text(left + 42, top + tall / 2 + 4, what, 12, "bold", "middle")
        + _text(left + 92, first, name, 12, "bold")
        + _text(left + 92, second, about, 11)
    )


def _text(x: float, y: float, text: str, size: int, weight: str = "normal", anchor: str = "start") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="#222"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'

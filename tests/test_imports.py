"""Who may import whom, and what an import may cost."""

import ast
import subprocess
import sys
import time

import pytest
from paths import SOURCE

MODULES = sorted(SOURCE.rglob("*.py"))

# Layers, and the layers and modules that each may import. All may import the foundations.
FOUNDATIONS = {
    "errors",
    "backend",
    "spec",
    "option_checks",
    "atomic_files",
    "lock",
    "custom_objects",
    "moved",
    "ids",
    "group_rows",
    "roles",
    "parallel",
    "fit_arguments",
    "result_table",
    "tree_frameworks",
}
MAY_IMPORT = {
    "errors": set(),
    "backend": set(),
    "spec": set(),
    "option_checks": {"spec"},
    "atomic_files": set(),
    "lock": {"atomic_files"},
    "custom_objects": set(),
    "moved": set(),
    "ids": set(),
    "group_rows": {"ids"},
    "roles": set(),
    "parallel": set(),
    "fit_arguments": set(),
    "result_table": set(),
    "tree_frameworks": set(),
    "list_checks": set(),
    "lists": {"list_checks"},
    "metrics": {"lists"},
    "relax": {"lists", "metrics.sort_order"},
    "kernels": {"backend"},
    "losses": {"lists", "metrics", "relax", "kernels"},
    "rankers": {"lists"},
    "settings": {"losses", "metrics", "data"},
    "data": {"lists", "metrics", "kernels.numba_cache"},
    "run": {"data", "losses", "metrics"},
    "models": {
        "run",
        "settings",
        "lists",
        "metrics",
        "losses",
        "rankers",
        "data",
        "training",
        "trees",
        "text",
        "parallel",
    },
    # A calibration uses only data and files, so each kind of model may save and export its own.
    "training": {
        "run",
        "settings",
        "lists",
        "metrics",
        "relax",
        "losses",
        "rankers",
        "data",
        "models.folder",
        "models.protocol",
        "models.calibration",
        "models.calibration_export",
    },
    "surrogate": {"run", "settings", "metrics", "losses", "training"},
    "trees": {
        "run",
        "settings",
        "estimators.trees",  # for type checkers only
        "lists",
        "metrics",
        "relax",
        "losses",
        "kernels",
        "data",
        "training",
        "models.folder",
        "models.protocol",
        "models.calibration",
    },
    "text": {
        "run",
        "settings",
        "estimators.text",  # for type checkers only
        "lists",
        "metrics",
        "losses",
        "data",
        "training",
        "models.folder",
        "models.protocol",
        "models.calibration",
    },
    "estimators": {
        "run",
        "settings",
        "lists",
        "metrics",
        "losses",
        "data",
        "training",
        "trees",
        "text",
        "models",
        "parallel",
    },
    # These two work on the protocol of models, and never know which kind of ranker they hold.
    "experiments": {
        "run",
        "metrics",
        "data",
        "models.protocol",
        "models.registry",
        "models.search_space",
        "models.auto",
        "models.feature_importance",
        "models.explanation",
        "models.reliability",
    },
    "cli": {
        "run",
        "settings",
        "__init__",
        "metrics",
        "data",
        "losses",
        "rankers",
        "surrogate",
        "experiments",
        "models.folder",
        "models.protocol",
        "models.registry",
        "models.auto",
        "models.feature_importance",
        "models.explanation",
        "models.calibration",
        "models.reliability",
        "training.model",
        "training.checkpoint",
        "training.loggers",
        "kernels.cache_folder",
        "kernels.diagnosis",
        "text",
    },
    "__main__": {"cli"},
}
# What costs a noticeable time to import, and so waits until it is used.
HEAVY = {
    "numba", "scipy", "sklearn", "pandas", "polars", "pyarrow", "lightning_fabric", "lightning", "triton", "altair",
    "onnx", "onnxruntime", "lightgbm", "xgboost", "ray", "transformers", "sentence_transformers", "bm25s", "datasets",
}  # fmt: skip


def layer_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path):
    """Modules that a file imports, whole names, at load or later."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides which layer it imports"
            if node.module == "rankgrad":  # `from rankgrad import losses` is an import of the package
                yield from (f"rankgrad.{alias.name}" for alias in node.names)
            else:
                yield node.module


def allowed(layer, target):
    known = MAY_IMPORT[layer] | ({"errors"} if layer in FOUNDATIONS else FOUNDATIONS if layer != "kernels" else set())
    return any(target == name or target.startswith(f"{name}.") for name in {*known, layer})


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_layers_import_only_those_below(path):
    layer = layer_of(path)
    if layer == "__init__":
        return
    assert layer in MAY_IMPORT, f"{layer} is a new layer: add what it may import to MAY_IMPORT"
    for name in imports(path):
        first, _, target = name.partition(".")
        if first == "rankgrad" and target and target != "__version__":
            assert allowed(layer, target), f"{layer} must not import {target}"


def module_name(path):
    parts = ("rankgrad", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in MODULES}


def imported(text):
    """The package's modules that a file imports when it runs, at load or later; what only type checkers see is not."""
    tree = ast.parse(text)
    unseen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            unseen.update(inner for part in node.body for inner in ast.walk(part))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in unseen:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node not in unseen:
            # `from rankgrad.losses import from_text` is an import of the module, `... import softmax` of the package.
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & NAMES) | ({node.module} if inner - NAMES else set())
    return found & NAMES


def cycle(graph):
    """A way from a module back to itself, as a list; None where there is none."""
    done, way = set(), []

    def walk(name):
        if name in way:
            return [*way[way.index(name) :], name]
        if name not in done:
            way.append(name)
            for other in sorted(graph[name]):
                if (found := walk(other)) is not None:
                    return found
            way.pop()
            done.add(name)
        return None

    return next((found for name in sorted(graph) if (found := walk(name)) is not None), None)


def test_no_imports_go_in_a_circle_at_load_or_later():
    graph = {module_name(path): imported(path.read_text(encoding="utf-8")) - {module_name(path)} for path in MODULES}
    assert cycle(graph) is None
    assert len(graph) > 150
    assert "rankgrad.kernels.op" in graph["rankgrad.losses.fused"]  # inside a function


def test_the_walk_finds_circles_and_leaves_types_out():
    text = "def f():\n    from rankgrad.losses import from_text\n    from rankgrad.lists import as_lists\n"
    text += "if TYPE_CHECKING:\n    from rankgrad import trees\nimport rankgrad.atomic_files\n"
    assert imported(text) == {"rankgrad.losses.from_text", "rankgrad.lists", "rankgrad.atomic_files"}
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_kernels_know_torch_and_their_compiler_only():
    compilers = {"cpu": {"numba", "llvmlite"}, "cuda": {"triton"}}
    for path in (SOURCE / "kernels").rglob("*.py"):
        parts = path.relative_to(SOURCE / "kernels").parts
        known = {"torch", "numpy", "rankgrad", *sys.stdlib_module_names, *compilers.get(parts[0], ())}
        others = {name.partition(".")[0] for name in imports(path)} - known
        # The package itself may start either compiler.
        assert not others - (set() if parts[0] in compilers else set().union(*compilers.values())), path


def test_the_walk_sees_what_it_should(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "import numba\nfrom typing import TYPE_CHECKING\nfrom rankgrad import losses\nfrom rankgrad.lists import x\n"
        "if TYPE_CHECKING:\n    import pandas\ndef f():\n    import scipy.stats\n"
    )
    assert set(imports(module)) == {"numba", "typing", "rankgrad.losses", "rankgrad.lists", "pandas", "scipy.stats"}
    assert not allowed("data", "losses")
    assert not allowed("relax", "metrics.metric")
    assert allowed("relax", "metrics.sort_order")
    assert not allowed("kernels", "errors")
    assert not allowed("losses", "training.loop")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def run(*command):
    """Seconds that a fresh process takes, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def heavy_after(statement, also, first="torch"):
    """Which heavy modules a statement loads in a fresh process that has the first one already."""
    program = f"import sys, {first}; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    names = run("-c", program)[1]
    loaded = set(names.split())
    return sorted({name for name in loaded if name in also or name.partition(".")[0] in HEAVY})


def test_importing_rankgrad_costs_little_more_than_torch():
    program = "import time, torch; begun = time.perf_counter(); import rankgrad; print(time.perf_counter() - begun)"
    assert min(float(run("-c", program)[1]) for _ in range(2)) < 0.3  # the best, for other programs also run


def test_layers_load_nothing_heavy():
    # The machinery of torch.compile takes two seconds to load, which a mere decorator can bring about.
    layers = (
        "rankgrad",
        *(f"rankgrad.{layer}" for layer in ("losses", "metrics", "relax", "data", "rankers", "training", "text")),
    )
    assert heavy_after(f"import {', '.join(layers)}", also={"torch._dynamo"}) == []


def test_help_is_quick():
    program = "import sys; from rankgrad.cli import app; app(['--help'], standalone_mode=False)"
    assert min(run("-c", program)[0] for _ in range(3)) < 1.5
    assert heavy_after(program.partition("; ")[2], also={"torch"}, first="os") == []


def test_a_class_name_occurs_once():
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}

"""Support old import paths: renamed modules of versions 0.1.0 and 0.2.0 can be imported, with a deprecation warning."""

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

from rankgrad.errors import nearest

# Old name of a module in version 0.1.0 or 0.2.0 -> new name, both without the prefix `rankgrad.`.
MODULES = {
    "accepted": "option_checks",
    "auto_estimator": "estimators.auto",
    "blend_estimator": "estimators.blend",
    "blending": "estimators.blend",
    "estimator": "estimators.neural",
    "estimator_base": "estimators.rows",
    "ranker": "estimators.neural",
    "rows": "estimators.rows",
    "files": "atomic_files",
    "own": "custom_objects",
    "cli.checks": "cli.argument_checks",
    "cli.screen": "cli.terminal_text",
    "cli.tables": "cli.terminal_tables",
    "cli.sources": "cli.data_source",
    "data.chunks": "data.letor.chunks",
    "data.cut": "data.truncation",
    "data.decimals": "data.letor.decimals",
    "data.facts": "data.benchmarks",
    "data.faults": "data.letor.errors",
    "data.findings": "data.inspection_checks",
    "data.inspect": "data.inspection",
    "data.layouts": "data.folder_layouts",
    "data.memory": "data.memory_limits",
    "data.parser": "data.letor.parser",
    "data.parsing": "data.letor.blocks",
    "data.list_chunks": "data.assemble",
    "data.queries": "data.assemble",
    "data.query_groups": "data.assemble",
    "data.reading": "data.letor.passes",
    "data.registry": "data.loading",
    "data.scan": "data.inspection_scan",
    "data.steps": "data.preprocessing.steps",
    "data.streams": "data.letor.streams",
    "data.summary": "data.read_summary",
    "experiments.cell": "experiments.runs.cell",
    "experiments.charts": "experiments.report.charts",
    "experiments.compare": "experiments.comparison",
    "experiments.entrants": "experiments.recipes.models",
    "experiments.explorer": "experiments.report.query_explorer",
    "experiments.facts": "experiments.runs.provenance",
    "experiments.footnotes": "experiments.tables.footnotes",
    "experiments.importance": "experiments.setting_importance",
    "experiments.latex": "experiments.tables.latex",
    "experiments.lifeline": "parallel.parent_watch",
    "experiments.packed": "experiments.runs.packed_results",
    "experiments.page": "experiments.report.page",
    "experiments.pool": "parallel.process_pool",
    "experiments.printed": "experiments.tables.published",
    "experiments.problems": "experiments.recipes.errors",
    "experiments.ray_pool": "parallel.ray_pool",
    "experiments.reading": "experiments.recipes.reader",
    "experiments.recipe": "experiments.recipes.recipe",
    "experiments.records": "experiments.runs.result_checks",
    "experiments.rendering": "experiments.tables.text",
    "experiments.results": "experiments.runs.results",
    "experiments.run": "experiments.runs.run_cell",
    "experiments.series": "experiments.report.chart_data",
    "experiments.sets": "experiments.recipes.data_sets",
    "experiments.space": "models.search_space",
    "experiments.study": "experiments.report.study",
    "experiments.trained": "experiments.runs.run_cell",
    "experiments.tune": "experiments.tuning",
    "experiments.work": "experiments.runs.run_recipe",
    "experiments.yaml_file": "experiments.recipes.yaml_file",
    "kernels.cache": "kernels.cache_folder",
    "kernels.kept": "kernels.numba_cache",
    "kernels.forks": "kernels.fork_check",
    "kernels.cuda.recorded": "kernels.cuda.recorded_launches",
    "kernels.cuda.reduce": "kernels.cuda.calls",
    "kernels.cpu.at_ranks": "kernels.cpu.metrics_at_ranks",
    "kernels.cpu.extremes": "kernels.cpu.min_max",
    "kernels.cpu.pairs": "kernels.cpu.pair_loops",
    "kernels.cpu.smooth": "kernels.cpu.smoothi",
    "kernels.cuda.smooth": "kernels.cuda.smoothi",
    "losses.documents": "losses.unpadded",
    "losses.formula": "losses.metric_formula",
    "losses.ideal": "losses.ideal_dcg",
    "losses.smooth": "losses.smoothi",
    "losses.own": "losses.custom",
    "losses.swaps": "losses.swap_deltas",
    "losses.text": "losses.from_text",
    "losses.surrogates": "losses.surrogate_networks",
    "metrics.found": "metrics.binary",
    "metrics.gains": "metrics.cumulative_gain",
    "metrics.measure": "metrics.metric",
    "metrics.order": "metrics.sort_order",
    "metrics.own": "metrics.custom",
    "metrics.pairs": "metrics.arp_opa",
    "metrics.ranked": "metrics.ranked_lists",
    "metrics.stopping": "metrics.cascade",
    "models.importance": "models.feature_importance",
    "rankers.naming": "rankers.from_text",
    "rankers.norm": "rankers.batch_norm",
    "rankers.own": "rankers.custom",
    "rankers.places": "rankers.list_index",
    "rankers.pooling": "rankers.softmax_pooling",
    "relax.operator": "relax.relaxation",
    "surrogate.draws": "surrogate.generated_lists",
    "training.adapt": "training.hypergradient",
    "training.adapt_step": "training.heldout_adaptation",
    "training.batches": "training.batch_schedule",
    "training.feed": "training.batch_loading",
    "training.graphs": "training.cuda_graphs",
    "training.judge": "training.validation",
    "training.optimise": "training.optimisers",
    "training.loggers": "run.log",
    "training.report": "run.log",
    "training.settings": "settings.neural",
    "training.state": "training.checkpoint",
    "training.warm": "training.warm_start",
    "trees.engines": "trees.frameworks",
    "trees.join": "trees.frameworks",
    "trees.joined_models": "trees.frameworks",
    "trees.hessians": "losses.curvature",
    "trees.judge": "trees.boosting",
    "trees.validation": "trees.boosting",
    "text.rankers": "estimators.text",
    "text.settings": "settings.text",
    "trees.estimator": "estimators.trees",
    "trees.ranker": "estimators.trees",
    "trees.shape": "trees.file_checks",
    "trees.splits": "trees.tree_arrays",
    "trees.lightgbm_file": "trees.lightgbm.checks",
    "trees.xgboost_file": "trees.xgboost.checks",
    "trees.lightgbm_checks": "trees.lightgbm.checks",
    "trees.xgboost_checks": "trees.xgboost.checks",
}


class _Finder(MetaPathFinder, Loader):
    """Import finder for old names, which loads the new modules. Python calls this finder after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a `ModuleSpec` for the old name of a renamed module; None for every other name."""
        if fullname.removeprefix("rankgrad.") not in MODULES or not fullname.startswith("rankgrad."):
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the renamed module, and return a proxy with the old name."""
        new = f"rankgrad.{MODULES[spec.name.removeprefix('rankgrad.')]}"
        _warn(spec.name, new)
        return _Alias(spec.name, importlib.import_module(new))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, because the renamed module has already run."""


class _Alias(ModuleType):
    """Proxy with the old name of a module and the attributes of the new module."""

    def __init__(self, name: str, module: ModuleType) -> None:
        super().__init__(name, module.__doc__)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the renamed module."""
        return getattr(self.__dict__["_module"], name)


def renamed(
    package: str, names: dict[str, str], members: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package with renamed public names.

    Args:
        package: name of the package.
        names: new name of each old name.
        members: public names that are loaded on first use, with the module that defines each name, relative to the
            package.
    """

    def __getattr__(name: str) -> Any:
        if name in members:
            return getattr(importlib.import_module(f".{members[name]}", package), name)
        if name not in names:
            near = [] if name.startswith("_") else nearest(name, sys.modules[package].__all__, most=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        _warn(f"{package}.{name}", f"{package}.{names[name]}")
        module, _, attribute = f"{package}.{names[name]}".rpartition(".")
        return getattr(importlib.import_module(module), attribute)

    return __getattr__


def _warn(old: str, new: str) -> None:
    """Warn that a name is deprecated. The warning shows the line of the caller, which uses the old name."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(("importlib", "rankgrad.moved")):
        frame = frame.f_back
    message, names = f"{old} is deprecated; use {new}", frame.f_globals
    location = (
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__"),
        names.setdefault("__warningregistry__", {}),
    )
    warnings.warn_explicit(message, DeprecationWarning, *location)


def install() -> None:
    """Install the import finder for old names of modules."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())

"""Read the parts of a recipe from YAML; check keys and values, and add defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankgrad.errors import bad_type, bad_value, mistyped, one_of
from rankgrad.experiments.recipes import models
from rankgrad.experiments.recipes.data_sets import RecipeData, known_benchmark
from rankgrad.experiments.recipes.errors import RecipeProblems
from rankgrad.experiments.seed_variance import TESTS
from rankgrad.experiments.statistics import CORRECTIONS
from rankgrad.experiments.tables import published
from rankgrad.metrics import parse_metric

FORMS = ("quick", "smoke")
KEYS = ("title", "answers", "data", "folds", "models", "losses", "settings", "search", "trials", "search_seed",
        "choose", "seeds", "metrics", "refit", "spread", "tests", "form", *FORMS, "notes", "later")  # fmt: skip
DATA_KEYS = ("name", "folder", "binary", "folds", "seeds", "settings", "models", "losses")
REFIT = ("none", "train+validation")
SPREAD = ("deviation", "interval")


@dataclass(frozen=True)
class Significance:
    """Settings of a recipe's significance tests."""

    test: str = "t"  # t, bootstrap or randomisation; see `rankgrad.experiments.seed_variance`
    correction: str = "none"  # none, bonferroni or holm
    level: float = 0.05  # a difference is significant if its p-value is below this level
    against: str = "best"  # best: test all pairs of rows; name of a loss: test each row against the row with this loss


def merge(base: Any, over: Any) -> Any:
    """Merge the part `over` of a recipe into `base`, for the quick and smoke forms.

    Mappings are merged key by key, and None (null in YAML) removes a key. Any other value replaces the value in `base`.

    Example:
        >>> merge({"trials": 4, "settings": {"epochs": 100, "clip": 1}}, {"settings": {"epochs": 5, "clip": None}})
        {'trials': 4, 'settings': {'epochs': 5}}
    """
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    both = {**base, **{key: merge(base.get(key), value) for key, value in over.items()}}
    return {key: value for key, value in both.items() if key not in over or value is not None}


def read_fields(raw: Any, problems: RecipeProblems) -> dict[str, Any]:
    """Read the fields of a `Recipe` from the content of its file, and add errors to `problems`.

    The fields `name` and `raw` are not read.
    """
    given = problems.known_keys("recipe", problems.mapping("recipe", raw), KEYS)
    found: dict[str, Any] = {}
    found["title"] = _text("title", given.get("title"), problems)
    found["notes"] = _text("notes", given.get("notes", ""), problems)
    found["answers"] = given.get("answers")
    if found["answers"] is not None:
        with problems.at("answers"):
            one_of("published table", found["answers"], published.names())
    found["form"] = given.get("form")
    if found["form"] is not None:
        with problems.at("form"):
            one_of("form", found["form"], FORMS)
    found["models"] = models.read_models("models", given.get("models"), problems)
    found["losses"] = models.read_losses("losses", given.get("losses"), problems)
    wanted = [key for key in ("models", "losses") if not found[key]]
    if found["models"] and all(model.losses for model in found["models"].values()):
        wanted = []  # each ranker has separate losses, so the recipe needs no others
    for key in wanted:
        with problems.at(key):
            bad_value("value", "have at least one entry", "none")
    found["data"] = _data(given, found, problems)
    found["settings"] = problems.settings("settings", given.get("settings"), without=("model", "loss"))
    found["search"] = models.read_search_space("search", given.get("search"), problems)
    found["trials"] = _trials(given, found, problems)
    found["search_seed"] = problems.whole_number("search_seed", given.get("search_seed", 0), least=0)
    models.check_search_conflicts(found, problems)
    found["choose"] = _metric("choose", given.get("choose", "nDCG@10"), problems)
    metrics = problems.distinct_entries("metrics", given.get("metrics"), "metrics")
    found["metrics"] = tuple(_metric(f"metrics[{place}]", text, problems) for place, text in enumerate(metrics))
    with problems.at("refit"):
        one_of("refit", given.get("refit", "none"), REFIT)
    found["refit"] = given.get("refit", "none") == REFIT[1]
    found["spread"] = given.get("spread", SPREAD[0])
    with problems.at("spread"):
        one_of("spread", found["spread"], SPREAD)
    separate = [label for model in found["models"].values() for label in model.losses or ()]
    found["tests"] = _tests(given.get("tests"), [*found["losses"], *separate], problems)
    later = problems.mapping("later", given.get("later"))
    found["later"] = {label: _text(f"later.{label}", why, problems) for label, why in later.items()}
    return found


def _text(path: str, value: Any, problems: RecipeProblems) -> str:
    with problems.at(path):
        if not isinstance(value, str):
            bad_type("value", "be text", repr(value))
        return value.strip()
    return ""


def _metric(path: str, text: Any, problems: RecipeProblems) -> str:
    """Check the spec of a metric in a recipe; return its canonical form, in which equal metrics are equal texts."""
    with problems.at(path):
        return str(parse_metric(text))
    return ""


def _data(given: Mapping[str, Any], found: Mapping[str, Any], problems: RecipeProblems) -> tuple[RecipeData, ...]:
    """Read the data sets of a recipe; an entry without `folds` or `seeds` gets the folds or seeds of the recipe."""
    sources: list[RecipeData] = []
    usual = models.read_seeds("seeds", given.get("seeds", [0]), problems)
    for place, entry in enumerate(problems.distinct_entries("data", given.get("data"), "data sets")):
        path = f"data[{place}]"
        values = {"name": entry} if isinstance(entry, str) else problems.mapping(path, entry)
        values = problems.known_keys(path, values, DATA_KEYS)
        name, folds = values.get("name", values.get("folder")), 0
        with problems.at(path):
            if not isinstance(name, str) or ("name" in values) == ("folder" in values):
                bad_value("entry", "be a name, {name: ...} or {folder: ...}", repr(entry))
            if "name" in values:
                folds = known_benchmark(name).folds
            if not isinstance(values.get("binary", False), bool):
                bad_value("binary", "be true or false", repr(values["binary"]))
        named: dict[str, Any] = {}
        for key, read in (("models", models.read_models), ("losses", models.read_losses)):
            inner = problems.known_keys(f"{path}.{key}", problems.mapping(f"{path}.{key}", values.get(key)), found[key])
            if key == "models":
                inner = {label: merge(given[key][label], entry) for label, entry in inner.items()}
            named[key] = read(f"{path}.{key}", inner, problems)
        source = RecipeData(
            name=str(name),
            binary=values.get("binary") is True,
            folds=_folds(f"{path}.folds" if "folds" in values else "folds", values, given, folds, problems),
            seeds=models.read_seeds(f"{path}.seeds", values["seeds"], problems) if "seeds" in values else usual,
            settings=problems.settings(f"{path}.settings", values.get("settings"), without=("model", "loss")),
            models=named["models"],
            losses=named["losses"],
        )
        with problems.at(path):
            if source.label in [other.label for other in sources]:
                bad_value("data set", "be given only once", repr(source.label))
        sources.append(source)
    return tuple(sources)


def _folds(path: str, values: Any, given: Any, count: int, problems: RecipeProblems) -> tuple[int | None, ...]:
    """Return the folds of a data set on which a recipe runs; `(None,)` for a data set without folds.

    `count` is the number of folds of the data set. For an entry with `folder`, `count` is 0: the number of folds is not
    known, and the entry must list the folds.
    """
    folder = "folder" in values
    wanted = values.get("folds") if folder else values.get("folds", given.get("folds", "all"))
    if wanted is None or (not count and not folder):
        return (None,)
    if wanted == "all" and not folder:
        return tuple(range(1, count + 1))
    folds = problems.distinct_entries(path, wanted, "folds")
    with problems.at(path):
        for fold in folds:
            if isinstance(fold, bool) or not isinstance(fold, int) or not 1 <= fold <= (count or fold):
                bad_value(
                    "fold", f"be an integer from 1 to {count}" if count else "be an integer of at least 1", repr(fold)
                )
    return tuple(folds)


def _trials(given: Mapping[str, Any], found: Mapping[str, Any], problems: RecipeProblems) -> int:
    trials = problems.whole_number("trials", given.get("trials", 1), least=1)
    with problems.at("trials"):
        if trials != 1 and not any(each.searched(found["search"]) for each in found["models"].values()):
            bad_value("trials", "be 1 if there is no search space", trials)
    return trials


def _tests(value: Any, losses: list[str], problems: RecipeProblems) -> Significance:
    given = problems.known_keys("tests", problems.mapping("tests", value), Significance.__dataclass_fields__)
    tests = Significance(**given)
    with problems.at("tests"):
        one_of("test", tests.test, TESTS)
    with problems.at("tests"):
        one_of("correction", tests.correction, CORRECTIONS)
    with problems.at("tests"):
        if not isinstance(tests.level, float) or not 0 < tests.level < 1:
            bad_value("level", "be between 0 and 1", repr(tests.level))
    with problems.at("tests"):
        if tests.against != "best" and tests.against not in losses:
            bad_value("`against`", "be 'best' or the name of a loss", *mistyped(tests.against, losses))
    return tests

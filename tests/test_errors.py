"""Errors have fields, several processes can send them, and no layer reads the text of our own errors."""

import ast
import pickle
from pathlib import Path

import pytest
from paths import SOURCE

from rankgrad.data.cache import CacheError
from rankgrad.data.letor.errors import LetorError
from rankgrad.data.tables.errors import FILL_ADVICE, NoColumn, TableError
from rankgrad.errors import BadType, BadValue, MissingFile, Place, Problem, Problems, located, name_settings
from rankgrad.experiments.recipes.errors import RecipeError
from rankgrad.parallel.process_pool import Task, run_in_this_process
from rankgrad.rankers import parse_ranker
from rankgrad.training import Settings, SettingsError

PROBLEM = Problem("lr", name_settings("be above 0, or {clip=1}"), -1, "did you mean 1?", ("r.yaml", Place("a", 3, 7)))
ERRORS = [
    (BadValue(PROBLEM), ValueError, "r.yaml: a:3:7: lr must be above 0, or clip=1; got -1; did you mean 1?"),
    (
        BadType(PROBLEM, "other"),
        TypeError,
        "r.yaml: a:3:7: lr must be above 0, or clip=1; got -1; did you mean 1?\nother",
    ),
    (MissingFile(Problem("root", "contain it", "no")), FileNotFoundError, "root must contain it; got no"),
    (NoColumn(Problem("label", "be given", "none")), ValueError, "label must be given; got none"),
    (LetorError(Path("a"), 5, "no qid", "one"), ValueError, "a:5: no qid; expected one"),
    (
        TableError("t", 5, "nan", "a number " + FILL_ADVICE),
        ValueError,
        f"t: row 5: nan; expected a number {FILL_ADVICE}",
    ),
    (CacheError(Path("c"), "old", "new"), ValueError, "c: old; expected new"),
    (SettingsError(PROBLEM), ValueError, "r.yaml: a:3:7: lr must be above 0, or clip=1; got -1; did you mean 1?"),
    (RecipeError("1 problem:", Problem("a", "b", "c")), ValueError, "1 problem:\na must b; got c"),
]


@pytest.mark.parametrize(("error", "kind", "text"), ERRORS, ids=lambda value: getattr(type(value), "__name__", ""))
def test_an_error_keeps_class_text_and_fields_between_processes(error, kind, text):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert isinstance(again, kind)
    assert str(again) == again.args[0] == text
    assert (again.problems, vars(again)) == (error.problems, vars(error))
    assert again.problems[0].text.parts == error.problems[0].text.parts  # the settings that it names


def test_all_problems_have_fields_and_their_places():
    with pytest.raises(SettingsError) as caught:
        Settings(model="mpl", epochs=0).check()
    model, epochs = located(caught.value, "run.json").problems
    assert (model.argument, model.must, model.got) == ("model", "be a known name", "'mpl'")
    assert (model.hint, model.where, epochs.argument) == ("did you mean 'mlp'?", ("run.json",), "epochs")
    assert str(located(caught.value, "x").renamed("model", "--model")).startswith(
        "x: --model must be a known name; got"
    )


def test_a_task_returns_the_error_with_its_fields():
    (done,) = run_in_this_process([Task("one", parse_ranker, ("mlp:widht=3",))])
    assert isinstance(done.problem, ValueError)
    assert (done.problem.problems[0].got, done.problem.problems[0].hint) == ("'widht'", "did you mean 'widths'?")
    assert done.error.strip().splitlines()[-1] == f"ValueError: {done.problem}"


# Functions that read the text of an error of another library, and of no error of rankgrad.
FOREIGN = {
    ("errors.py", "first_line"): "any library",
    ("errors.py", "problems_of"): "any library; errors of rankgrad have fields",
    ("data/tables/errors.py", "unreadable"): "Arrow",
    ("data/tables/json_lines.py", "_objects"): "json",
    ("data/tables/files.py", "__init__"): "Arrow",
    ("data/tables/files.py", "_explain"): "Arrow",
    ("text/formats/tables.py", "_parquet"): "Arrow",
    ("experiments/recipes/yaml_file.py", "parse_yaml"): "PyYAML",
    ("experiments/runs/run_cell.py", "run_cell"): "none: the text is stored in a result",
    ("training/model.py", "load"): "PyTorch",
    ("text/encoder_loading.py", "library_message"): "transformers",
}


def readers(path):
    """Functions of a module that do more with the text of an error than to show it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        errors = {node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler)}
        errors |= {each.arg for each in function.args.args if "Exception" in ast.unparse(each.annotation or each)}
        for node in ast.walk(function):
            words = ast.unparse(node) if isinstance(node, ast.Call | ast.Attribute) else ""
            if any(words in (f"str({name})", f"repr({name})", f"{name}.args") for name in errors - {None}):
                use = above[node]
                shown = isinstance(use, ast.FormattedValue | ast.Return)
                if not shown and not (isinstance(use, ast.Call) and ast.unparse(use.func) == "AttributeError"):
                    yield function.name


def test_no_layer_reads_the_text_of_an_error_of_rankgrad():
    found = {(str(path.relative_to(SOURCE)), name) for path in SOURCE.rglob("*.py") for name in readers(path)}
    assert found == set(FOREIGN)


def test_the_base_class_is_for_our_classes_only():
    assert all(issubclass(kind, ValueError | TypeError | OSError) for kind in Problems.__subclasses__())

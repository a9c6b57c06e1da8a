"""Run `rankgrad text train` and `rankgrad text distil`: check the options, train or resume, and evaluate."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rankgrad.cli.argument_checks import is_first
from rankgrad.cli.text.teacher import read_order, teacher_kind
from rankgrad.cli.text.training_lists import TEACHER_RUN, ListParts, TextLists
from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.data import Dataset
    from rankgrad.models.protocol import RankerKind, TrainedModel
    from rankgrad.text.model import TextModel

TEST_RUN = "test-run.txt"  # run of the test queries of a fold, in the folder of the run
_OF_NETWORK = ("model", "temperature", "max_length", "passages", "max_document")  # settings of an initial model


def train_text_ranker(
    command: str,
    settings: dict[str, Any],
    given: dict[str, Any],
    *,
    encoder: str | None,
    out: Path,
    resume: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Run `rankgrad text train` or `distil`: train a text ranker and print the result.

    Args:
        command: `train` or `distil`.
        settings: given settings of `rankgrad.text.TextSettings`, except the encoder.
        given: given options of `TextLists`.
        encoder: folder or name of the encoder; None if it is not given.
        out: folder of the run.
        resume: True to resume the run in `out`.
        overwrite: True to replace the run in `out`.
        as_json: True to print the result as JSON.
    """
    from rankgrad.cli.argument_checks import check_device, only_run, together
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.shared_options import one_line
    from rankgrad.cli.train import check_folder
    from rankgrad.models.registry import kind_of
    from rankgrad.run import NotFinite

    lists = _lists(given, out if resume else None)
    whole = _settings(settings, encoder, lists, out if resume else None)
    one_of("model", whole["model"], ("bi_encoder", "cross_encoder"))
    kind = kind_of(whole["model"])
    checked: list[Any] = []
    together(
        lambda: checked.append(kind.checked(whole)),
        kind.check_installed,
        lambda: check_device(str(whole.get("device", "auto"))),
        lists.check,
        lambda: check_folder(kind, out, resume, overwrite),
    )
    try:
        with one_line(NotFinite), only_run(out):
            _run(messages(as_json), kind, whole, checked[0], lists, out, resume, overwrite, as_json)
    except KeyboardInterrupt:
        if is_first():
            where = f"rankgrad text {command} --resume --out {shlex.quote(str(out))}"
            done = kind.resumes(out)
            typer.echo(f"\nStopped. {f'To resume: {where}' if done else _nothing(lists, out, where)}", err=True)
        raise typer.Exit(130) from None


def _nothing(lists: TextLists, out: Path, where: str) -> str:
    from rankgrad.cli.text.scoring import partial_file

    if lists.teacher is not None and partial_file(out / TEACHER_RUN).is_file():
        return f"The scores of the teacher are saved. To resume: {where}"
    return "No epoch is complete: there is nothing to resume."


def _lists(given: dict[str, Any], resumed: Path | None) -> TextLists:
    """Return the options of the lists of a text run. To resume a run, return the options that its folder records."""
    from rankgrad.cli.text.index_folder import absolute

    paths = {name: absolute(given.get(name)) for name in ("index", "queries", "qrels", "run", "init_model")}
    known = {name: value for name, value in {**given, **paths}.items() if value is not None and value is not False}
    if (teacher := known.get("teacher")) is not None and Path(teacher).exists():
        known["teacher"] = absolute(teacher)
    if given.get("add_relevant") is False:
        known["add_relevant"] = False
    if resumed is None:
        if "index" not in known:
            bad_value("index", "be given, unless a run is resumed", None)
        if "fold" in known and "holdout" in known:
            bad_value("holdout", "not be given with --fold, because each fold has a validation part", "both")
        return TextLists(**known)
    kept = TextLists.kept(resumed)
    for name, value in known.items():
        if getattr(kept, name) != value:
            bad_value(name, f"be {getattr(kept, name)!r} to resume {resumed}", repr(value))
    return kept


def _settings(given: dict[str, Any], encoder: str | None, lists: TextLists, resumed: Path | None) -> dict[str, Any]:
    """Return the settings of a text run: recorded settings of the resumed run or initial model, and given settings."""
    from rankgrad.cli.text.text_models import encoder_of, is_model
    from rankgrad.cli.train import kept_settings
    from rankgrad.models.folder import read_config

    named = {} if encoder is None else {"encoder": encoder_of(encoder)}
    if resumed is not None:
        return {**kept_settings(resumed)[0], **given, **named}
    start: dict[str, Any] = {}
    if lists.init_model is not None:
        if not is_model(lists.init_model):
            bad_value("init_model", "be the folder of a text ranker", lists.init_model)
        known = read_config(lists.init_model).get("settings", {})
        if known.get("model") not in ("bi_encoder", "cross_encoder"):
            bad_value(
                "init_model", "be the folder of a text ranker", f"{lists.init_model}, a ranker that uses features"
            )
        if given.get("model", known["model"]) != known["model"]:
            other = f"--encoder {lists.init_model} uses only the encoder of this model"
            bad_value("init_model", f"be a {given['model']} ({other})", f"a {known['model']}")
        start = {name: known[name] for name in _OF_NETWORK if name in known}
        start["encoder"] = encoder_of(lists.init_model)
    if encoder is None and "encoder" not in start:
        bad_value("encoder", "be given: a folder or the name of a model on the Hugging Face hub", None)
    return {"model": "bi_encoder", **start, **given, **named}


def _run(
    console: "Console",
    kind: "RankerKind",
    settings: dict[str, Any],
    checked: Any,
    lists: TextLists,
    out: Path,
    resume: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    from rankgrad.atomic_files import write_json
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import print_json
    from rankgrad.cli.overwrite import remove_run
    from rankgrad.cli.shared_options import detail, options
    from rankgrad.cli.text.seen_queries import warn_if_seen
    from rankgrad.cli.train import RUN, check_folder
    from rankgrad.models.registry import load

    check_folder(kind, out, resume, overwrite)  # again, because another run may have finished in the meantime
    with telling(f"reading {lists.index}"):
        parts = lists.read()
        warn_if_seen([lists.teacher, lists.init_model, settings["encoder"]], _test_texts(lists, parts))
    sizes = {name: part for name in ("train", "validation", "test") if (part := getattr(parts, name)) is not None}
    for name, part in sizes.items():
        console.print(f"{name}: {len(part):,} lists, {len(part.labels):,} documents", markup=False)
    if parts.validation is None:
        console.print("no validation lists: the model has the weights of the last epoch")
    device = str(settings.get("device", "auto"))
    start = None if lists.init_model is None else load(lists.init_model)
    teacher = _teacher(lists, device)
    record = {"settings": {**kind.defaults, **settings}}
    for name, value in record["settings"].items():
        detail(f"  {name}: {value}")
    if overwrite:
        remove_run(out)
    if not (resume and kind.resumes(out)):
        lists.keep(out)
        write_json(out / RUN, record, seal=True)
    assert parts.train is not None
    train = parts.train
    if lists.teacher is not None:
        with telling():
            train = _taught(lists, train, teacher, out, resume)
    console.print(f"training {kind.describe(settings)}", markup=False)
    progress = is_first() and not options.quiet
    with telling():
        model = kind.fit(checked, train, parts.validation, out=out, resume=resume, progress=progress, init_model=start)
    write_json(out / RUN, record, seal=True)  # a resumed run may have more epochs
    result = _report(console, model, lists, parts, settings, out)
    if as_json:
        counts = {name: len(part) for name, part in sizes.items()}
        print_json({"model": out, "kind": kind.name, "lists": counts, **result, **record})


def _teacher(lists: TextLists, device: str) -> "TextModel | None":
    """Load the teacher of the training, if the teacher is a text ranker; otherwise return None."""
    from rankgrad.cli.text.text_models import load_text_model

    if lists.teacher is None or teacher_kind(lists.teacher) != "model":
        return None
    return load_text_model(lists.teacher, device, "teacher")


def _taught(lists: TextLists, train: "Dataset", teacher: "TextModel | None", out: Path, resume: bool) -> "Dataset":
    """Return the training lists with labels from the teacher. If the teacher is a model, also save its scores."""
    from rankgrad.cli.text.scoring import partial_file, score_in_blocks
    from rankgrad.metrics import read_run, write_run
    from rankgrad.text import fuse, labels_from_order, teacher_labels, to_run
    from rankgrad.text.candidates import fill_missing

    assert lists.teacher is not None
    assert train.docids is not None
    if teacher_kind(lists.teacher) == "order":
        return labels_from_order(train, read_order(Path(lists.teacher)))
    path = Path(lists.teacher)
    if teacher is not None:
        path = out / TEACHER_RUN
        if not (resume and path.is_file()):
            write_run(path, to_run(train, score_in_blocks(teacher, train, path)), "teacher")
            partial_file(path).unlink(missing_ok=True)
    run, documents = read_run(path), train.docids.tolist()
    if lists.fuse:
        run = fuse([to_run(train, train.features[:, 2]), run])
    bounds = zip(train.qids.tolist(), train.offsets[:-1], train.offsets[1:], strict=True)
    scores = [score for query, start, end in bounds for score in fill_missing(run, str(query), documents[start:end])]
    return teacher_labels(train, scores, standardise=lists.standardise, temperature=lists.temperature)


def _report(
    console: "Console",
    model: "TrainedModel",
    lists: TextLists,
    parts: ListParts,
    settings: dict[str, Any],
    out: Path,
) -> dict[str, Any]:
    """Print the result of a text run, measure the test queries of a fold, and return the result for `--json`."""
    from rankgrad.cli.text.run_comparison import METRICS, compare_text_runs, print_comparison
    from rankgrad.metrics import write_run
    from rankgrad.models.folder import write_metrics

    seconds = sum(row.get("seconds", 0.0) + row.get("judge_seconds", 0.0) for row in model.history)
    found: dict[str, Any] = {"kept": model.kept, "trained": len(model.history), "seconds": round(seconds, 4)}
    found |= {"validation": model.metrics.get("validation"), "loss": model.metrics.get("loss"), "test": None}
    best = "".join(f", {name} {value:.4f} on validation" for name, value in model.metrics.get("validation", {}).items())
    console.print(f"best after {model.kept} of {len(model.history)} epochs{best}; {seconds:.1f} s", markup=False)
    if learned := model.metrics.get("loss"):
        values = ", ".join(f"{name} {value:.4g}" for name, value in learned.items())
        console.print(f"learned parameters of the loss: {values}", markup=False)
    if parts.test is not None and parts.collection.qrels:
        runs, qrels = _test_runs(model, lists, parts, str(settings["model"]))
        write_run(out / TEST_RUN, runs[str(settings["model"])], str(settings["model"]))
        result = compare_text_runs(runs, qrels, METRICS)
        write_metrics(out, {**model.metrics, "test": result.results[str(settings["model"])].means})
        console.print(f"\non {len(qrels):,} test queries of fold {lists.fold}:", markup=False)
        print_comparison(result, console)
        found["test"] = result.to_dict()
    console.print(f"model: {out}", markup=False)
    folder, index = shlex.quote(str(out)), shlex.quote(lists.index)
    console.print(f"next:  rankgrad text rerank {folder} {index} --out reranked.txt", markup=False)
    return found


def _test_runs(model: "TrainedModel", lists: TextLists, parts: ListParts, name: str) -> tuple[dict[str, Any], Any]:
    """Return three runs of the test queries (first stage, model, and both combined), and the labels of the queries."""
    from rankgrad.cli.text.first_stage import DEPTH, fused
    from rankgrad.text import to_run

    assert parts.test is not None
    ranked = to_run(parts.test, model.score_lists(parts.test))
    first = {query: {each: (parts.run or {})[query][each] for each in scores} for query, scores in ranked.items()}
    wanted = _test_texts(lists, parts)
    qrels = {query: judged for query, judged in parts.collection.qrels.items() if query in wanted}
    both = fused([first, ranked], lists.depth or DEPTH)
    candidates = lists.candidate_run
    return {"bm25" if candidates is None else candidates.name: first, name: ranked, "fused": both}, qrels


def _test_texts(lists: TextLists, parts: ListParts) -> dict[str, str]:
    """Return the text of each test query with labels, by id; without a fold, return no query."""
    from rankgrad.cli.text.first_stage import queries_of_fold

    if lists.fold is None or parts.test is None:
        return {}
    queries, qrels = parts.collection.queries, parts.collection.qrels
    wanted = queries_of_fold(queries.ids, lists.fold, lists.folds)
    return {id: text for id, text in zip(queries.ids, queries.texts, strict=True) if id in wanted and id in qrels}

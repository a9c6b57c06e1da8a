"""Run `rankgrad text train` and `rankgrad text distil`: check the options, train or resume, and evaluate."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rankgrad.cli.argument_checks import is_first
from rankgrad.cli.text.teacher import read_order, teacher_kind
from rankgrad.cli.text.training_lists import TEACHER_RUN, ListParts, TextLists
from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankgrad.data import Dataset
    from rankgrad.models.protocol import RankerKind, TrainedModel
    from rankgrad.text.model import TextModel

TEST_RUN = "test-run.txt"  # run of the test queries of a fold, in the folder of the run
_MODELS = ("bi_encoder", "cross_encoder")
_OF_NETWORK = ("model", "temperature", "max_length", "passages", "max_document")  # settings of an initial model


def train_text_ranker(command: str, settings: dict[str, Any], given: "Mapping[str, Any]") -> None:
    """Run `rankgrad text train` or `distil`: train a text ranker and print the result.

    Args:
        command: `train` or `distil`.
        settings: given settings of `rankgrad.text.TextSettings`, except the encoder.
        given: all parameters of the command: those of `TextLists`, `encoder`, `out`, `resume`, `overwrite`, `as_json`.
    """
    from rankgrad.cli.argument_checks import check_device, only_run, together
    from rankgrad.cli.shared_options import one_line
    from rankgrad.cli.train import check_folder
    from rankgrad.models.registry import kind_of
    from rankgrad.run import NotFinite

    out, resume, overwrite = given["out"], given["resume"], given["overwrite"]
    resumed = out if resume else None
    lists = TextLists.of({**given, "seed": settings.get("seed")}, resumed)
    settings = _settings(settings, given["encoder"], lists, resumed)
    one_of("model", settings["model"], _MODELS)
    kind = kind_of(settings["model"])
    checked: list[Any] = []
    together(
        lambda: checked.append(kind.checked(settings)),
        kind.check_installed,
        lambda: check_device(str(settings.get("device", "auto"))),
        lists.check,
        lambda: check_folder(kind, out, resume, overwrite),
    )
    try:
        with one_line(NotFinite), only_run(out):
            check_folder(kind, out, resume, overwrite)  # again, because another run may have finished in the meantime
            TextRun(kind, settings, checked[0], lists, out, resume, given["as_json"]).train(overwrite)
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


def _settings(given: dict[str, Any], encoder: str | None, lists: TextLists, resumed: Path | None) -> dict[str, Any]:
    """Return the settings of a text run: recorded settings of the resumed run or initial model, and given settings."""
    from rankgrad.cli.text.text_models import encoder_of, is_model
    from rankgrad.cli.train import kept_settings
    from rankgrad.models.folder import read_config

    named = {} if encoder is None else {"encoder": encoder_of(encoder)}
    if resumed is not None:
        return {**kept_settings(resumed)[0], **given, **named}
    start: dict[str, Any] = {}
    if (model := lists.init_model) is not None:
        known = read_config(model).get("settings", {}) if is_model(model) else {}
        if known.get("model") not in _MODELS:
            got = f"{model}, a ranker that uses features" if is_model(model) else model
            bad_value("init_model", "be the folder of a text ranker", got)
        if given.get("model", known["model"]) != known["model"]:
            other = f"--encoder {model} uses only the encoder of this model"
            bad_value("init_model", f"be a {given['model']} ({other})", f"a {known['model']}")
        start = {name: known[name] for name in _OF_NETWORK if name in known} | {"encoder": encoder_of(model)}
    if encoder is None and "encoder" not in start:
        bad_value("encoder", "be given: a folder or the name of a model on the Hugging Face hub", None)
    return {"model": "bi_encoder", **start, **given, **named}


@dataclass(frozen=True)
class TextRun:
    """One training of `rankgrad text train` or `distil`, whose options are checked."""

    kind: "RankerKind"
    settings: dict[str, Any]
    checked: Any  # the settings as `RankerKind.fit` takes them
    lists: TextLists
    out: Path
    resume: bool
    as_json: bool

    def train(self, overwrite: bool) -> None:
        """Read the lists, train or resume, and print the result. `overwrite` removes the run in the folder before."""
        from rankgrad.atomic_files import write_json
        from rankgrad.cli.data_source import telling
        from rankgrad.cli.json_output import messages, print_json
        from rankgrad.cli.overwrite import remove_run
        from rankgrad.cli.shared_options import detail, options
        from rankgrad.cli.text.seen_queries import warn_if_seen
        from rankgrad.cli.text.text_models import load_text_model
        from rankgrad.cli.train import RUN
        from rankgrad.models.registry import load

        kind, settings, lists, out, console = self.kind, self.settings, self.lists, self.out, messages(self.as_json)
        with telling(f"reading {lists.index}"):
            parts = lists.read()
            warn_if_seen([lists.teacher, lists.init_model, settings["encoder"]], self._test_texts(parts))
        for name, part in parts.lists.items():
            console.print(f"{name}: {len(part):,} lists, {len(part.labels):,} documents", markup=False)
        train, validation = parts.splits.train, parts.splits.validation
        if validation is None:
            console.print("no validation lists: the model has the weights of the last epoch")
        start = None if lists.init_model is None else load(lists.init_model)
        taught = lists.teacher is not None
        device, by_model = str(settings.get("device", "auto")), taught and teacher_kind(str(lists.teacher)) == "model"
        teacher = load_text_model(str(lists.teacher), device, "teacher") if by_model else None
        record = {"settings": {**kind.defaults, **settings}}
        for name, value in record["settings"].items():
            detail(f"  {name}: {value}")
        if overwrite:
            remove_run(out)
        if not (self.resume and kind.resumes(out)):
            lists.keep(out)
            write_json(out / RUN, record, seal=True)
        if taught:
            with telling():
                train = self._taught(train, teacher)
        console.print(f"training {kind.describe(settings)}", markup=False)
        shown = is_first() and not options.quiet
        with telling():
            model = kind.fit(
                self.checked, train, validation, out=out, resume=self.resume, progress=shown, init_model=start
            )
        write_json(out / RUN, record, seal=True)  # a resumed run may have more epochs
        result = self._report(model, parts)
        if self.as_json:
            counts = {name: len(part) for name, part in parts.lists.items()}
            print_json({"model": out, "kind": kind.name, "lists": counts, **result, **record})

    def _taught(self, train: "Dataset", teacher: "TextModel | None") -> "Dataset":
        """Return the training lists with labels from the teacher. If the teacher is a model, also save its scores."""
        from rankgrad.cli.text.scoring import partial_file, score_in_blocks
        from rankgrad.metrics import read_run, write_run
        from rankgrad.text import fuse, labels_from_order, teacher_labels, to_run
        from rankgrad.text.candidates import scores_of

        lists = self.lists
        path = Path(str(lists.teacher))
        if teacher_kind(str(path)) == "order":
            return labels_from_order(train, read_order(path))
        if teacher is not None:
            path = self.out / TEACHER_RUN
            if not (self.resume and path.is_file()):
                write_run(path, to_run(train, score_in_blocks(teacher, train, path)), "teacher")
                partial_file(path).unlink(missing_ok=True)
        run = read_run(path)
        if lists.fuse:
            run = fuse([to_run(train, train.features[:, 2]), run])
        scores = scores_of(train, run)
        return teacher_labels(train, scores, standardise=lists.standardise, temperature=lists.temperature)

    def _report(self, model: "TrainedModel", parts: ListParts) -> dict[str, Any]:
        """Print the result of a text run, measure the test queries of a fold, and return the result for `--json`."""
        from rankgrad.cli.json_output import messages
        from rankgrad.cli.terminal_tables import TEXT_METRICS
        from rankgrad.cli.text.run_comparison import compare_text_runs, print_comparison
        from rankgrad.cli.train import print_history
        from rankgrad.metrics import write_run
        from rankgrad.models.folder import write_metrics

        console, out, name = messages(self.as_json), self.out, str(self.settings["model"])
        found = print_history(console, model)
        if parts.splits.test is not None and parts.collection.qrels:
            runs, qrels = self._test_runs(model, parts)
            write_run(out / TEST_RUN, runs[name], name)
            result = compare_text_runs(runs, qrels, TEXT_METRICS)
            write_metrics(out, {**model.metrics, "test": result.results[name].means})
            console.print(f"\non {len(qrels):,} test queries of fold {self.lists.fold}:", markup=False)
            print_comparison(result, console)
            found["test"] = result.to_dict()
        console.print(f"model: {out}", markup=False)
        folder, index = shlex.quote(str(out)), shlex.quote(self.lists.index)
        console.print(f"next:  rankgrad text rerank {folder} {index} --out reranked.txt", markup=False)
        return found

    def _test_runs(self, model: "TrainedModel", parts: ListParts) -> tuple[dict[str, Any], Any]:
        """Return three runs of the test queries (first stage, model, both combined), and the labels of the queries."""
        from rankgrad.cli.text.first_stage import DEPTH, fused
        from rankgrad.text import to_run

        test, candidates, run = parts.splits.test, self.lists.candidate_run, parts.run
        assert test is not None
        assert run is not None
        ranked = to_run(test, model.score_lists(test))
        first = {query: {each: run[query][each] for each in scores} for query, scores in ranked.items()}
        wanted = self._test_texts(parts)
        qrels = {query: judged for query, judged in parts.collection.qrels.items() if query in wanted}
        runs = {"bm25" if candidates is None else candidates.name: first, str(self.settings["model"]): ranked}
        return {**runs, "fused": fused([first, ranked], self.lists.depth or DEPTH)}, qrels

    def _test_texts(self, parts: ListParts) -> dict[str, str]:
        """Return the text of each test query with labels, by id; without a fold, return no query."""
        from rankgrad.text.candidates import fold_roles

        if self.lists.fold is None:
            return {}
        queries, qrels = parts.collection.queries, parts.collection.qrels
        roles = fold_roles(queries.ids, self.lists.fold, self.lists.folds)
        texts = zip(queries.ids, queries.texts, strict=True)
        return {id: text for id, text in texts if roles[id] == "test" and id in qrels}

"""Run `rankgrad text train` and `rankgrad text distil`: check the options, train or resume, and evaluate."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.cli.text.teacher import read_order, teacher_kind
from rankgrad.cli.text.training_lists import TEACHER_RUN, ListParts, TextLists
from rankgrad.cli.training_run import TrainingRun, kept_settings
from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankgrad.data import Dataset
    from rankgrad.models.protocol import TrainedModel
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
    from rankgrad.models.registry import kind_of

    out, resume = given["out"], given["resume"]
    resumed = out if resume else None
    lists = TextLists.of({**given, "seed": settings.get("seed")}, resumed)
    settings = _settings(settings, given["encoder"], lists, resumed)
    one_of("model", settings["model"], _MODELS)
    start = None if lists.init_model is None else Path(lists.init_model)
    options: dict[str, Any] = {"overwrite": given["overwrite"], "as_json": given["as_json"], "command": command}
    run = TextRun(kind_of(settings["model"]), settings, lists, out, resume, init_model=start, **options)
    run.check(lists.check)
    run.start()


def _settings(given: dict[str, Any], encoder: str | None, lists: TextLists, resumed: Path | None) -> dict[str, Any]:
    """Return the settings of a text run: recorded settings of the resumed run or initial model, and given settings."""
    from rankgrad.cli.text.text_models import encoder_of, is_model
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


@dataclass
class TextRun(TrainingRun):
    """One training of `rankgrad text train` or `distil`."""

    lists: TextLists
    command: str = "train"

    def how_to_resume(self) -> str:
        """Return the command that resumes the training; see `TrainingRun.how_to_resume`."""
        from rankgrad.cli.text.scoring import partial_file

        where = f"rankgrad text {self.command} --resume --out {shlex.quote(str(self.out))}"
        if self.kind.resumes(self.out):
            return f"To resume: {where}"
        if self.lists.teacher is not None and partial_file(self.out / TEACHER_RUN).is_file():
            return f"The scores of the teacher are saved. To resume: {where}"
        return "No epoch is complete: there is nothing to resume."

    def run(self) -> None:
        """Read the lists, fit the model, and print the result; see `TrainingRun.run`."""
        from rankgrad.cli.data_source import telling
        from rankgrad.cli.json_output import messages, print_json
        from rankgrad.cli.text.seen_queries import warn_if_seen
        from rankgrad.cli.text.text_models import load_text_model

        settings, lists, console = self.settings, self.lists, messages(self.as_json)
        with telling(f"reading {lists.index}"):
            parts = lists.read()
            warn_if_seen([lists.teacher, lists.init_model, settings["encoder"]], self._test_texts(parts))
        for name, part in parts.lists.items():
            console.print(f"{name}: {len(part):,} lists, {len(part.labels):,} documents", markup=False)
        validation = parts.splits.validation
        if validation is None:
            console.print("no validation lists: the model has the weights of the last epoch")
        taught = lists.teacher is not None
        device, by_model = str(settings.get("device", "auto")), taught and teacher_kind(str(lists.teacher)) == "model"
        teacher = load_text_model(str(lists.teacher), device, "teacher") if by_model else None

        def train(data: "Dataset") -> "Dataset":
            data = self._taught(data, teacher) if taught else data
            console.print(f"training {self.kind.describe(settings)}", markup=False)
            return data

        model = self.fit(parts.splits.train, validation, train)
        result = self._report(model, parts)
        if self.as_json:
            counts = {name: len(part) for name, part in parts.lists.items()}
            print_json({"model": self.out, "kind": self.kind.name, "lists": counts, **result, **self.record})

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
        from rankgrad.cli.text.index_folder import DEPTH
        from rankgrad.cli.text.scoring import fused
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

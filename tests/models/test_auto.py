"""The automatic search: folds, candidates, races, ensembles, the forms of the final model, and interruptions."""

import itertools
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rankgrad as rg
from rankgrad.models.auto import ensemble, final_model, portfolio, run, stored_lists, students
from rankgrad.models.auto.search import AutoSearch, SearchSettings, reserve
from rankgrad.models.registry import kind_or_default, load
from rankgrad.parallel import clock
from rankgrad.parallel.clock import now
from rankgrad.parallel.process_pool import Pool, Task, run_in_this_process
from rankgrad.trees.model import TreeModel

METRIC = "nDCG@10"


@pytest.fixture(scope="module")
def lists():
    return rg.data.synthetic(40, mean_length=8, features=12, seed=5)


@pytest.fixture(scope="module")
def quick():
    """Portfolio with short trainings: the search is the same, and each training takes a few milliseconds."""
    before = portfolio.PORTFOLIO
    short = tuple(
        {**entry, **({"trees": 10} if "trees" in entry else {"epochs": 3})}
        for entry in before
        if entry["loss"] in ("native:lambdarank", "softmax", "native:rank:ndcg") and "attsets" not in entry["model"]
    )
    patch = pytest.MonkeyPatch()
    for module in (portfolio, students):
        patch.setattr(module, "PORTFOLIO", short)
    patch.setattr("rankgrad.models.auto.search.PORTFOLIO", short)
    yield short
    patch.undo()


def searched(data, folder, *, runner=run_in_this_process, final=None, told=None, **settings):
    settings = SearchSettings(**{"trials": 5, "folds": 2, **settings})
    return run.run_search(data, settings, final or final_model.FinalSettings(), folder, runner, told=told)


def test_folds_do_not_depend_on_the_order_of_the_lists(lists):
    data = lists.train
    found = stored_lists.fold_numbers(data, 3, seed=1)
    order = np.random.default_rng(0).permutation(len(data))
    assert (stored_lists.fold_numbers(data.take(order), 3, seed=1) == found[order]).all()
    useful = stored_lists.lists_with_different_labels(data)
    counts = np.bincount(found[useful], minlength=3)
    assert counts.max() - counts.min() <= 1
    assert (stored_lists.fold_numbers(data, 3, seed=2) != found).any()
    twice = stored_lists.joined(data, data.take(slice(10)))  # a query in the training and in the validation part
    numbers = stored_lists.fold_numbers(twice, 3, seed=1)
    assert (numbers[len(data) :] == numbers[:10]).all()


def test_candidates_are_valid_and_follow_the_seed():
    installed = portfolio.installed_kinds()
    found = list(itertools.islice(portfolio.candidates(0, installed), 60))
    for candidate in found:
        kind_or_default(candidate.settings["model"]).check({**candidate.settings, "metric": METRIC, "seed": 0})
    assert [candidate.settings for candidate in found[: len(portfolio.PORTFOLIO)]] == list(portfolio.PORTFOLIO)
    assert found == list(itertools.islice(portfolio.candidates(0, installed), 60))
    assert found != list(itertools.islice(portfolio.candidates(1, installed), 60))
    without = list(itertools.islice(portfolio.candidates(0, dict.fromkeys(installed, False) | {"neural": True}), 20))
    assert {candidate.family for candidate in without} == {"networks"}


def test_the_same_trials_give_the_same_model(lists, quick, tmp_path):
    first = searched(lists.train, tmp_path / "a")
    again = searched(lists.train, tmp_path / "b")
    assert first.members == again.members
    assert (first.model.score_lists(lists.test) == again.model.score_lists(lists.test)).all()
    other = searched(lists.train, tmp_path / "c", seed=1)
    assert (first.model.score_lists(lists.test) != other.model.score_lists(lists.test)).any()


def test_a_search_continues_with_more_trials(lists, quick, tmp_path):
    runs = []

    def counting(tasks, until=None):
        tasks = list(tasks)
        runs.extend(task.name for task in tasks)
        return run_in_this_process(tasks, until)

    searched(lists.train, tmp_path / "a", trials=3, runner=counting)
    before = len(runs)
    more = searched(lists.train, tmp_path / "a", trials=5, runner=counting)
    assert len(set(runs)) == len(runs) > before  # no training is repeated
    fresh = searched(lists.train, tmp_path / "b", trials=5)
    assert (more.model.score_lists(lists.test) == fresh.model.score_lists(lists.test)).all()
    with pytest.raises(ValueError, match="out must be a new folder, or the folder of a search with the same lists"):
        searched(lists.test, tmp_path / "a")
    with pytest.raises(ValueError, match=r"the folder of a search with folds=3; got .* of a search with folds=2"):
        searched(lists.train, tmp_path / "a", folds=3)


def test_a_killed_training_is_repeated(lists, quick, tmp_path):
    fresh = searched(lists.train, tmp_path / "a")
    searched(lists.train, tmp_path / "b")
    first, *_, last = sorted((tmp_path / "b").glob("c*/fit.json"))
    first.unlink()  # a kill before the last file of a training
    last.unlink()
    last.with_name("scores.npy").write_bytes(b"cut")
    again = searched(lists.train, tmp_path / "b")
    assert (again.model.score_lists(lists.test) == fresh.model.score_lists(lists.test)).all()


def test_ctrl_c_returns_the_best_model_so_far(lists, quick, tmp_path):
    def stopping(count):
        def runner(tasks, until=None):
            nonlocal count
            for result in run_in_this_process(tasks, until):
                yield result
                count -= 1
                if count == 0:
                    raise KeyboardInterrupt

        return runner

    result = searched(lists.train, tmp_path / "a", runner=stopping(3))  # in the first folds: nothing is complete
    assert result.folds == 1
    assert len(result.members) >= 1
    assert result.model.score_lists(lists.test).shape == lists.test.labels.shape
    with pytest.raises(KeyboardInterrupt):
        searched(lists.train, tmp_path / "b", runner=lambda tasks, until=None: (_ for _ in ()).throw(KeyboardInterrupt))


def test_the_time_limit_holds(lists, quick, tmp_path):
    searched(lists.train, tmp_path / "first", trials=4)  # imports and compiles: a first search takes seconds for this
    for seconds in (2.5, 10.0):  # the second only if this machine is slow
        began = time.time()
        result = searched(lists.train, tmp_path / f"{seconds}", trials=None, seconds=seconds)
        assert time.time() - began < seconds * 1.05 + 2.0  # two seconds for a loaded machine
        if len(result.leaderboard) > len(quick):
            break
    assert len(result.leaderboard) > len(quick)  # the portfolio, then draws
    assert {row["folds"] for row in result.leaderboard} <= {0, 1, 2}


def test_a_search_with_a_time_limit_resumes(lists, quick, tmp_path):
    first = searched(lists.train, tmp_path / "a", trials=None, seconds=1.5)
    began = time.time()
    again = searched(lists.train, tmp_path / "a", trials=None, seconds=1.5)  # the time is already used
    assert time.time() - began < 4.0  # on a loaded machine; the results below show that nothing was trained
    assert (again.folds, len(again.leaderboard)) == (first.folds, len(first.leaderboard))
    assert {row["candidate"] for row in first.leaderboard if row["folds"] == 2} == {
        row["candidate"] for row in again.leaderboard if row["folds"] == 2
    }
    more = searched(lists.train, tmp_path / "a", trials=None, seconds=2.5)
    assert len(more.leaderboard) > len(first.leaderboard)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_search_does_not_read_the_clock_of_the_machine(lists, quick, tmp_path, monkeypatch, hours):
    def shifted(tasks, until=None):  # someone sets the clock when the first training begins
        monkeypatch.setattr(time, "time", lambda real=time.time: real() + 3600 * hours)
        yield from run_in_this_process(tasks, until)

    begun, seen = time.monotonic(), []
    searched(
        lists.train, tmp_path, runner=shifted, trials=None, seconds=1.5, told=lambda search, _: seen.append(search)
    )
    assert time.monotonic() - begun < 20
    assert seen[0].begun == pytest.approx(begun, abs=20)
    assert all(0 <= fit.seconds < 20 for entry in seen[0].entries.values() for fit in entry.fits.values())
    with Pool(1) as pool:
        for runner in (run_in_this_process, pool.run):
            assert [done.value for done in runner([Task("a", abs, (-2,))], until=now() + 20)] == [2]


def test_processes_of_other_machines_follow_the_clock_of_a_search(monkeypatch):
    monkeypatch.setattr(clock, "_ahead", 0.0)
    theirs = now() - 1000, time.time() - 5  # read five seconds ago, on a machine that started later
    clock.follow(theirs)
    assert now() == pytest.approx(theirs[0] + 5, abs=1)


def test_the_lists_of_a_search_do_not_stay_on_the_disk(lists, quick, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    train = lists.train
    for stopped in (False, True):
        if stopped:
            monkeypatch.setattr(run, "make_model", lambda *_: (_ for _ in ()).throw(RuntimeError))
        with pytest.raises(RuntimeError) if stopped else nullcontext():
            rg.AutoRanker(trials=1, folds=2, jobs=1).fit(train.features, train.labels, qid=train.row_qids)
        maps = Path("/proc/self/maps").read_text()
        assert [line for line in maps.splitlines() if str(tmp_path) in line] == []


def test_a_pool_ends_tasks_at_the_time_limit():
    with Pool(2) as pool:
        assert [done.value for done in pool.run([Task("first", abs, (-1,))])] == [1]
        began = time.time()
        found = list(pool.run([Task("a", abs, (-2,)), Task("b", time.sleep, (60,))], until=now() + 1.0))
        assert [done.value for done in found] == [2]
        assert time.time() - began < 10
        assert [done.value for done in pool.run([Task("after", abs, (-3,))])] == [3]  # the pool can still be used


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.take([0]), "contain at least 2 queries with a list whose labels differ; got 1"),
        (lambda data: replace(data, labels=np.ones_like(data.labels)), "differ"),
        (lambda data: data.take(slice(0)), "differ"),
    ],
)
def test_lists_that_cannot_be_ranked_get_a_sentence(lists, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        searched(change(lists.train), tmp_path)


def test_few_lists_and_constant_features(lists, quick, tmp_path):
    few = lists.train.take(np.sort(stored_lists.lists_with_different_labels(lists.train)[:3]))
    assert searched(few, tmp_path / "few", folds=5, trials=3).folds == 3
    constant = replace(lists.train, features=np.ones_like(lists.train.features))
    result = searched(constant, tmp_path / "constant", trials=3)
    assert np.isfinite(result.model.score_lists(constant)).all()


def test_a_candidate_that_fails_is_shown(lists, quick, tmp_path):
    weighted = replace(lists.train, weights=np.linspace(0.5, 1, len(lists.train.labels), dtype=np.float32))
    result = searched(weighted, tmp_path / "a")
    assert all(np.isfinite(row["value"]) for row in result.leaderboard if not row["note"])
    broken = [{**entry, "loss": "no_such_loss"} for entry in quick[:1]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portfolio, "PORTFOLIO", (*broken, *quick[1:3]))
        patch.setattr("rankgrad.models.auto.search.PORTFOLIO", (*broken, *quick[1:3]))
        found = searched(lists.train, tmp_path / "b", trials=3)
        assert [row["candidate"] for row in found.leaderboard if row["note"].startswith("failed: ")] == ["c001"]
        patch.setattr(portfolio, "PORTFOLIO", tuple(broken))
        patch.setattr("rankgrad.models.auto.search.PORTFOLIO", tuple(broken))
        with pytest.raises(ValueError, match="the search must finish at least one training; got no finished training"):
            searched(lists.train, tmp_path / "c", trials=1)


def test_a_candidate_that_cannot_be_loaded_does_not_end_the_search(lists, quick, tmp_path, monkeypatch):
    def damaged(model, folder, *, save=TreeModel.save):
        save(model, folder)
        if model.framework == "lightgbm":
            (folder / "model.txt").write_text("tree\n")

    monkeypatch.setattr(TreeModel, "save", damaged)
    result = searched(lists.train, tmp_path / "a")
    failed = [row for row in result.leaderboard if row["note"].startswith("failed: ")]
    assert failed
    assert all("model.txt must match its hash" in row["note"] for row in failed)
    assert result.model.score_lists(lists.test).shape == lists.test.labels.shape


def test_the_memory_limit_leaves_candidates_out(lists, quick, tmp_path):
    documents, features = lists.train.features.shape
    longest = int(lists.train.lengths.max())
    needs = {}
    for entry in quick:
        kind = kind_or_default(entry["model"])
        needs.setdefault(kind.unit, []).append(
            kind.memory(entry, documents, features, longest) + 4 * documents * features
        )
    limit = (max(needs["tree"]) + min(needs["epoch"])) // 2
    result = searched(lists.train, tmp_path / "a", memory=limit)
    left_out = [row for row in result.leaderboard if row["note"].startswith("left out: needs about")]
    assert left_out
    assert {row["family"] for row in left_out} == {"networks"}
    assert {member["model"] for member in result.members} <= {"lightgbm", "xgboost"}
    with pytest.raises(ValueError, match="memory must be enough for at least one candidate"):
        searched(lists.train, tmp_path / "b", memory=1000)


# Ensembles


def scored(values, families=None, lists=200, seed=0):
    """Candidates of which each orders lists of two documents correctly with a given probability, or as given."""
    rng = np.random.default_rng(seed)
    labels, offsets = np.tile([1.0, 0.0], lists).astype(np.float32), np.arange(0, 2 * lists + 1, 2)
    data = rg.data.Dataset(np.zeros((2 * lists, 1), np.float32), labels, offsets, qids=np.arange(lists))
    right = np.stack([rng.random(lists) < value if np.isscalar(value) else value for value in values])
    scores = np.stack([np.where(right, 1.0, -1.0), np.where(right, -1.0, 1.0)], axis=2).reshape(len(values), -1).T
    return ensemble.OutOfFold(data, scores, families or ["trees"] * len(values), "P@1")


def test_the_even_blend_gives_families_the_same_weight_and_drops_bad_candidates():
    good = np.arange(200) % 5 != 0
    found = scored([good, good, good, ~good], ["trees", "trees", "networks", "networks"])
    weights = ensemble.even_blend(found)
    assert weights.tolist() == [0.25, 0.25, 0.5, 0.0]


def test_a_clearly_better_candidate_is_returned_alone():
    found = scored([0.99, 0.6, 0.62, 0.58])
    choice = ensemble.choose(found, seed=0)
    assert choice.weights.tolist() == [1, 0, 0, 0]


def test_noise_does_not_replace_the_even_blend():
    rng = np.random.default_rng(3)
    forms = [ensemble.choose(scored([0.7] * 8, lists=60, seed=int(rng.integers(1e6))), seed=0).form for _ in range(10)]
    assert forms.count(ensemble.EVEN) >= 8


def test_greedy_selection_finds_candidates_that_complete_each_other():
    lists = 300
    first, second = np.arange(lists) % 3 != 0, np.arange(lists) % 3 != 1
    third = np.arange(lists) % 3 != 2  # the majority of these three is always right
    found = scored([first, second, third, 0.5, 0.5], lists=lists)
    weights = ensemble.greedy(found)
    assert weights[3:].sum() < 0.2
    assert ensemble.mean(found.measure(found.scores @ weights)) == 1.0
    assert ensemble.mean(found.values[0]) < 0.7


def test_the_nested_check_measures_lists_that_did_not_choose():
    """With many candidates of pure noise, the best one looks good on the lists that chose it, and not in the check."""
    found = scored([0.5] * 40, lists=50, seed=1)
    choice = ensemble.choose(found, seed=0)
    best = max(ensemble.mean(values) for values in found.values)
    assert best >= 0.6
    assert choice.nested[ensemble.SINGLE] < best - 0.05


def test_the_summary_gives_the_reason_for_the_form(lists, quick, tmp_path):
    result = searched(lists.train, tmp_path / "a")
    assert ensemble.reason(result.form, result.nested, len(result.members)) in result.summary()
    nested = {ensemble.SINGLE: 0.61, ensemble.EVEN: 0.6, ensemble.GREEDY: 0.6}
    assert "unless another form is clearly better" in ensemble.reason(ensemble.EVEN, nested, 3)
    assert "was clearly better than the even blend" in ensemble.reason(ensemble.SINGLE, nested, 1)


def test_a_metric_of_which_lower_values_are_better(lists, quick, tmp_path):
    result = searched(lists.train, tmp_path / "a", metric="ARP", final=final_model.FinalSettings(single=True))
    complete = [row["value"] for row in result.leaderboard if row["folds"] == 2]
    assert result.leaderboard[0]["value"] == min(complete) < max(complete)
    assert result.members[0]["candidate"] == result.leaderboard[0]["candidate"]
    assert all(value > 0 for value in (*complete, *result.nested.values()))


# Forms of the final model


def test_the_ensemble_is_saved_and_loaded(lists, quick, tmp_path):
    result = searched(lists.train, tmp_path / "search")
    scores = result.model.score_lists(lists.test)
    result.model.save(tmp_path / "model")
    assert (load(tmp_path / "model").score_lists(lists.test) == scores).all()
    assert sum(member["weight"] for member in result.members) == pytest.approx(1)
    assert sum(member["models"] for member in result.members) == 2 * len(result.members)


def test_out_of_fold_scores_come_from_models_that_did_not_see_the_list(lists, quick, tmp_path):
    data = lists.train
    stored = stored_lists.StoredLists.write(data, tmp_path / "lists", 2, 0)
    search = AutoSearch(SearchSettings(trials=2, folds=2), stored, tmp_path, run_in_this_process)
    list(search.run())
    entry = search.complete()[0]
    numbers, owner = stored.numbers(), np.repeat(stored.numbers(), data.lengths)
    for fold, folder in enumerate(search.folders(entry)):
        model = final_model.read_model(folder)
        part = data.take(numbers == fold)
        assert (search.scores(entry)[owner == fold] == model.score_lists(part)).all()
        train, held = stored.split(fold)
        assert not set(train.qids) & set(held.qids)
        assert set(held.qids) == set(part.qids)


def test_single_returns_one_model(lists, quick, tmp_path):
    result = searched(lists.train, tmp_path / "a", final=final_model.FinalSettings(single=True))
    assert not hasattr(result.model, "models")
    assert result.members[0]["models"] == 1
    best = result.leaderboard[0]
    assert (result.members[0]["candidate"], result.members[0]["loss"]) == (best["candidate"], best["loss"])


def test_the_latency_limit(lists, quick, tmp_path):
    small = searched(lists.train, tmp_path / "a", final=final_model.FinalSettings(max_latency=1e-9))
    assert sum(member["models"] for member in small.members) == 1
    assert any("no candidate has a latency below" in note for note in small.notes)
    large = searched(lists.train, tmp_path / "a", final=final_model.FinalSettings(max_latency=10.0))
    assert large.latency < 10.0
    assert not large.notes


@pytest.mark.parametrize("name", students.STUDENTS)
def test_a_student_learns_the_ensemble(lists, quick, tmp_path, name):
    result = searched(lists.train, tmp_path / "a", final=final_model.FinalSettings(distil=name))
    assert not hasattr(result.model, "models")
    assert result.form == "student of the even blend"
    assert set(result.compared) == {"ensemble", "best candidate"}
    ensemble_model = searched(lists.train, tmp_path / "a").model
    teacher, student = ensemble_model.score_lists(lists.test), result.model.score_lists(lists.test)
    assert np.corrcoef(teacher, student)[0, 1] > 0.3


def test_soft_labels_mix_teacher_and_labels():
    teacher, labels = np.array([1.0, -1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0], np.float32)
    found = students.soft_labels(teacher, labels, np.array([0, 2, 2, 4]))
    assert found.tolist() == [2.0, 0.0, 1.0, 0.0]  # least label of each list 0; labels standardised, weight 0.5


def test_settings_are_checked():
    for settings, message in (
        ({"single": True, "distil": "mlp"}, "not be given together"),
        ({"max_latency": 0.0}, "max_latency must be above 0"),
        ({"distil": "forest"}, "distil must be"),
    ):
        with pytest.raises(ValueError, match=message):
            final_model.FinalSettings(**settings).check()
    for settings, message in (
        ({}, "exactly one of minutes and trials must be given; got neither"),
        ({"trials": 3, "seconds": 1.0}, "got both"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"trials": 3, "folds": 1}, "folds must be at least 2"),
        ({"seconds": -60.0}, "minutes must be above 0"),
        ({"trials": 3, "metric": "nDGC"}, "nDGC"),
    ):
        with pytest.raises(ValueError, match=message):
            SearchSettings(**settings).check()
    assert reserve(60) == pytest.approx(2.4)
    assert reserve(2) == pytest.approx(0.5)
    assert reserve(36000) == 60


# The estimator


def test_the_estimator(lists, quick, tmp_path):
    train, validation, test = lists.train, lists.validation, lists.test
    ranker = rg.AutoRanker(trials=4, folds=2).fit(
        train.features, train.labels, qid=train.row_qids,
        eval_set=(validation.features, validation.labels), eval_qid=validation.row_qids,
    )  # fmt: skip
    assert ranker.result_.lists == len(train) + len(validation)  # no list is wasted
    scores = ranker.predict(test.features, qid=test.row_qids)
    assert ranker.score(test.features, test.labels, qid=test.row_qids) > 0.5
    ranker.save(tmp_path / "model")
    again = rg.AutoRanker.load(tmp_path / "model")
    assert (again.predict(test.features, qid=test.row_qids) == scores).all()
    with pytest.raises(ValueError, match="qid or group must be given, because an ensemble standardises"):
        ranker.predict(test.features)
    for settings, message in (
        ({"minutes": 0}, "minutes must be above 0"),
        ({"trials": 1.5}, "trials must be an integer"),
        ({"metric": print}, "metric must be the spec of a metric"),
        ({"trials": 1, "memory": -1}, "memory must be above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            rg.AutoRanker(**settings).fit(train.features, train.labels, qid=train.row_qids)


def test_the_estimator_with_names_weights_and_processes(lists, quick):
    pd = pytest.importorskip("pandas")
    train = lists.train
    frame = pd.DataFrame(train.features, columns=[f"f{n}" for n in range(12)])
    ranker = rg.AutoRanker(trials=2, folds=2, single=True).fit(
        frame, train.labels, qid=train.row_qids, sample_weight=np.ones(len(frame))
    )
    assert ranker.model_.feature_names == tuple(frame.columns)
    swapped = frame[frame.columns[::-1]]
    assert (ranker.predict(swapped, qid=train.row_qids) == ranker.predict(frame, qid=train.row_qids)).all()


def test_results_of_other_settings_are_not_reused(lists, quick, tmp_path):
    """The numbers of candidates do not depend on installed packages, and a result belongs to its settings."""
    with pytest.MonkeyPatch.context() as patch:
        names = {"lightgbm": False, "xgboost": False, "neural": True}
        patch.setattr("rankgrad.models.auto.search.installed_kinds", lambda: names)
        without = searched(lists.train, tmp_path / "a", trials=3)
    assert {row["family"] for row in without.leaderboard} == {"networks"}
    again = searched(lists.train, tmp_path / "a", trials=3)
    fresh = searched(lists.train, tmp_path / "b", trials=3)
    assert (again.model.score_lists(lists.test) == fresh.model.score_lists(lists.test)).all()
    assert [row["model"] for row in again.leaderboard] == [row["model"] for row in fresh.leaderboard]


def test_a_rejected_search_changes_nothing(lists, quick, tmp_path):
    searched(lists.train, tmp_path / "a", trials=2)
    weighted = replace(lists.train, weights=np.linspace(0.1, 1, len(lists.train.labels), dtype=np.float32))
    with pytest.raises(ValueError, match="a search with other lists"):
        searched(weighted, tmp_path / "a", trials=2)
    again = searched(lists.train, tmp_path / "a", trials=5)
    fresh = searched(lists.train, tmp_path / "b", trials=5)
    assert (again.model.score_lists(lists.test) == fresh.model.score_lists(lists.test)).all()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "lists").write_text("kept")
    with pytest.raises(ValueError, match=r"out must be a new folder, or the folder of a search; got .* contains lists"):
        searched(lists.train, tmp_path / "mine")
    assert (tmp_path / "mine" / "lists").read_text() == "kept"


def test_a_student_follows_its_teacher(lists, quick, tmp_path):
    final = final_model.FinalSettings(distil="lightgbm")
    searched(lists.train, tmp_path / "a", trials=2, final=final)
    more = searched(lists.train, tmp_path / "a", trials=5, final=final)
    fresh = searched(lists.train, tmp_path / "b", trials=5, final=final)
    assert (more.model.score_lists(lists.test) == fresh.model.score_lists(lists.test)).all()


def test_ctrl_c_while_the_student_is_trained_returns_the_ensemble(lists, quick, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(final_model, "teach", interrupted)
    result = searched(lists.train, tmp_path / "a", final=final_model.FinalSettings(distil="mlp"))
    assert hasattr(result.model, "models")
    assert "stopped before the wanted form was trained, so the result is the ensemble" in result.notes


def test_there_is_always_a_model(lists, quick, tmp_path):
    result = searched(
        lists.train, tmp_path / "a", trials=None, seconds=1.0, runner=lambda tasks, until=None: iter(())
    )  # no task begins in time, as on a loaded machine
    assert result.folds == 1
    assert len(result.members) == 1


def test_two_lists_are_not_enough_to_drop_a_candidate():
    values = np.array([[0.9, 0.8], [0.8, 0.75]])
    assert ensemble.not_clearly_worse(values).all()
    assert not ensemble.not_clearly_worse(np.repeat(values, 20, axis=1) + np.linspace(0, 1e-3, 40))[1]


def test_groups_of_training_and_validation_are_different_queries(lists, quick):
    train, validation = lists.train, lists.validation
    ranker = rg.AutoRanker(trials=1, folds=2).fit(
        train.features, train.labels, group=train.lengths,
        eval_set=(validation.features, validation.labels), eval_group=validation.lengths,
    )  # fmt: skip
    assert ranker.result_.lists == len(train) + len(validation)
    one = rg.AutoRanker(trials=1, folds=2).fit(
        train.features[: train.offsets[1]], train.labels[: train.offsets[1]], group=train.lengths[:1],
        eval_set=(validation.features, validation.labels), eval_group=validation.lengths,
    )  # fmt: skip
    assert one.result_.folds == 2
    ids = {"eval_qid": np.zeros(12, int), "eval_list_id": np.repeat([1, 2], 6)}  # two lists of one query, never split
    both = rg.AutoRanker(trials=1, folds=3).fit(
        train.features[:6], [0, 1] * 3, group=[6], eval_set=(train.features[:12], [0, 1] * 6), **ids
    )
    assert both.result_.folds == 2


def test_a_search_is_not_resumed_on_other_lists_or_training_columns():
    lists = rg.data.synthetic(8).train
    ids, position = np.arange(len(lists)), {"position": np.zeros(len(lists.labels), np.float32)}
    others = [replace(lists, list_ids=ids), replace(lists, list_ids=ids + 1), replace(lists, columns=position)]
    named = [
        replace(lists, columns={"labels": labels}, labels=lists.labels + more)
        for labels, more in ((lists.labels, 0), (lists.labels, 1))
    ]  # a training column may have the name of another array
    assert len({stored_lists.content_hash(data) for data in (lists, *others, *named)}) == 6

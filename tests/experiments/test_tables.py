"""Tables of experiments: their numbers and their notes."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
import yaml
from drawn_results import NDCG, SKILL, Results, entry, recipe, replace_recipe, run, seen
from made_results import LOSSES, MODELS, make

from rankgrad.experiments import parse_recipe
from rankgrad.experiments.runs.results import read_results
from rankgrad.experiments.seed_variance import RunValues, compare_runs
from rankgrad.experiments.statistics import adjust
from rankgrad.experiments.tables.table import table, tables


def by_hand(results, loss, metric=NDCG):
    """Each query's mean over seeds, by its name."""
    gathered = {}
    for outcome in results.final():
        if outcome.cell.loss == loss:
            for query, value in zip(outcome.queries, outcome.values(metric), strict=True):
                gathered.setdefault(query, []).append(value)
    return {query: np.mean(values) for query, values in gathered.items()}


def test_a_number_is_the_mean_over_folds_and_seeds():
    results = run(recipe())
    made = table(results, "MQ2008")
    runs = [outcome for outcome in results.final() if outcome.cell.loss == "LambdaLoss"]
    means = {(o.cell.fold, o.cell.settings["seed"]): o.values(NDCG).mean() for o in runs}
    by_seed = [(means[1, seed] + means[2, seed]) / 2 for seed in (0, 1, 2)]
    ours = entry(made, "LambdaLoss")
    assert ours.mean == pytest.approx(np.mean(by_seed))
    assert ours.spread == pytest.approx(np.std(by_seed, ddof=1))
    assert (ours.runs, ours.wanted, ours.queries) == (6, 6, 120)
    assert ours.best
    assert ours.p is None
    assert not entry(made, "Softmax").best


@pytest.mark.parametrize("correction", ["none", "bonferroni", "holm"])
def test_with_one_seed_p_values_are_scipys_on_the_same_queries(correction):
    results = run(recipe(seeds=[0], tests={"correction": correction}))
    made = table(results, "MQ2008")
    losses = ("LambdaLoss", "ApproxNDCG", "Softmax")
    values = {loss: by_hand(results, loss) for loss in losses}
    queries = list(values["LambdaLoss"])
    theirs = {
        pair: scipy.stats.ttest_rel(*([values[loss][q] for q in queries] for loss in pair)).pvalue
        for pair in combinations(losses, 2)
    }
    adjusted = dict(zip(theirs, adjust(list(theirs.values()), correction), strict=True))
    best = next(row.loss for row in made.rows if row.entries[NDCG].best)
    for loss in set(losses) - {best}:
        pair = next(pair for pair in theirs if set(pair) == {loss, best})
        ours = entry(made, loss)
        assert ours.p == pytest.approx(theirs[pair], rel=1e-9)
        assert ours.adjusted == pytest.approx(adjusted[pair], rel=1e-6)  # for all three pairs
        assert ours.difference == pytest.approx(np.mean([values[loss][q] - values[best][q] for q in queries]))
        assert ours.interval[0] < ours.difference < ours.interval[1]
        assert ours.detectable > 0


def test_with_several_seeds_training_runs_are_random_too():
    results = run(recipe())
    best, other = (by_hand(results, loss) for loss in ("LambdaLoss", "Softmax"))
    averaged = scipy.stats.ttest_rel([other[q] for q in best], list(best.values())).pvalue
    rows = [[o for o in results.final() if o.cell.loss == loss] for loss in ("Softmax", "LambdaLoss")]
    ours = entry(table(results, "MQ2008"), "Softmax")
    assert ours.p == compare_runs(*(RunValues.of(runs, NDCG) for runs in rows)).p
    assert ours.p > averaged  # a mean over seeds forgets that the runs are a sample


def test_marks_against_the_best_and_against_a_row():
    results = run(recipe())
    made = table(results, "MQ2008")
    assert [entry(made, loss).mark for loss in ("LambdaLoss", "ApproxNDCG", "Softmax")] == ["", "", "†"]
    made = table(replace_recipe(results, tests={"against": "ApproxNDCG", "correction": "none"}), "MQ2008")
    assert [entry(made, loss).mark for loss in ("LambdaLoss", "ApproxNDCG", "Softmax")] == ["▲", "", "▼"]
    made = table(replace_recipe(results, tests={"level": 1e-300}), "MQ2008")
    assert {own.mark for row in made.rows for own in row.entries.values()} == {""}
    alike = run(recipe(), skill=dict.fromkeys(SKILL, 0.05))
    assert {own.mark for row in table(alike, "MQ2008").rows for own in row.entries.values()} == {""}


def test_marks_go_by_the_adjusted_p_value():
    results = run(recipe())
    ours = entry(table(results, "MQ2008"), "ApproxNDCG")
    between = float(np.sqrt(ours.p * ours.adjusted))
    assert ours.p < between < ours.adjusted
    for correction, mark in (("bonferroni", ""), ("none", "†")):
        tests = {"level": between, "correction": correction}
        assert entry(table(replace_recipe(results, tests=tests), "MQ2008"), "ApproxNDCG").mark == mark


def test_the_randomisation_test():
    made = table(replace_recipe(run(recipe()), tests={"test": "randomisation"}), "MQ2008")
    assert entry(made, "Softmax").p == 1 / 10_001
    assert "randomisation test" in " ".join(made.notes)


def test_lower_is_better_where_it_is():
    study = recipe(metrics=["ARP"])
    made = table(run(study), "MQ2008")
    assert entry(made, "Softmax", "ARP").best
    assert [entry(made, loss, "ARP").mark for loss in ("LambdaLoss", "ApproxNDCG", "Softmax")] == ["†", "†", ""]
    against = table(run(recipe(metrics=["ARP"], tests={"against": "ApproxNDCG"})), "MQ2008")
    assert [entry(against, loss, "ARP").mark for loss in ("LambdaLoss", "Softmax")] == ["▼", "▲"]


def test_losses_are_compared_with_the_ranker_held_fixed():
    study = recipe(models={"MLP": {"model": "mlp"}, "Linear": {"model": "linear"}})
    made = table(run(study), "MQ2008")
    for model in ("MLP", "Linear"):
        best = [row.loss for row in made.rows if row.model == model and row.entries[NDCG].best]
        assert best == ["LambdaLoss"]
        assert entry(made, "LambdaLoss", model=model).p is None
    own = entry(made, "Softmax", model="MLP")
    assert own.adjusted == pytest.approx(min(1, 6 * own.p))  # three pairs for each of two rankers
    assert own.comparisons == 6


def test_missing_runs_are_counted_and_not_compared():
    results = run(recipe())
    lost = [o for o in results.final() if o.cell.loss == "LambdaLoss" and o.cell.fold == 2][:2]
    partial = Results(results.recipe, [o for o in results.cells if o not in lost and o.cell.loss != "Softmax"])
    made = table(partial, "MQ2008")
    ours = entry(made, "LambdaLoss")
    assert (ours.runs, ours.wanted, ours.spread, ours.best, ours.p, ours.gap) == (4, 6, None, False, None, None)
    assert entry(made, "Softmax").mean is None
    assert entry(made, "ApproxNDCG").best
    for text in (seen(made), made.markdown(), made.latex()):
        assert f"{ours.mean:.4f} (4/6)" in text
        assert re.search("(\N{EN DASH}|--) \\(0/6\\)", text)
        assert "only n of m runs are done" in " ".join(text.split())
    complete = table(results, "MQ2008")
    assert "(" not in re.sub(r"\n\n- .*", "", complete.markdown(), flags=re.DOTALL)
    assert not any("are done" in note for note in complete.notes)


def test_a_reference_that_is_missing():
    results = replace_recipe(run(recipe()), tests={"against": "Softmax"})
    results.cells = [o for o in results.cells if o.cell.loss != "Softmax"]
    made = table(results, "MQ2008")
    assert all(own.p is None for row in made.rows for own in row.entries.values())
    assert "Runs of Softmax are missing: no row can be tested against this loss" in made.notes


def test_a_wrong_pairing_is_an_error():
    results = run(recipe())
    results.final()[-1].queries[3] = "q7-7"
    with pytest.raises(ValueError, match="same queries"):
        table(results, "MQ2008")


def test_skipped_queries():
    results = run(recipe(seeds=[0]))
    for outcome in results.final():
        for values in outcome.by_metric.values():
            values[outcome.queries == "q1-5"] = np.nan
    made = table(results, "MQ2008")
    assert entry(made, "Softmax").queries == 119
    best, third = by_hand(results, "LambdaLoss"), by_hand(results, "Softmax")
    theirs = scipy.stats.ttest_rel(list(third.values()), [best[q] for q in third], nan_policy="omit").pvalue
    assert entry(made, "Softmax").p == pytest.approx(theirs, rel=1e-6)


def test_the_papers_numbers_stand_beside_ours():
    study = recipe(
        answers="learndcg-table1", models={"MLP": {"model": "mlp"}}, metrics=[NDCG],
        losses={"Fixed": "LearnDCG:learn=none", "Learned": "LearnDCG"}, tests={"against": "Fixed"},
    )  # fmt: skip
    made = table(run(study), "MQ2008")
    ours = entry(made, "Fixed", model="MLP")
    assert ours.printed == pytest.approx(0.7227)
    assert ours.gap == pytest.approx(ours.mean - 0.7227)
    assert (made.scale, made.digits) == (100, 2)
    # Rows that only the paper has are also shown, without numbers of ours.
    (other,) = [row for row in made.rows if row.model == "AttSets" and row.loss == "Fixed"]
    assert (other.entries[NDCG].mean, other.entries[NDCG].printed) == (None, pytest.approx(0.7424))
    for text in (seen(made), made.markdown(), made.latex()):
        assert "72.27" in text
        assert f"{ours.mean * 100:.2f}" in text
        assert f"{ours.gap * 100:+.2f}".replace("-", "$-$" if text.startswith("\\") else "-") in text
        assert "Table 1; diff: ours minus paper" in " ".join(text.split())


@pytest.mark.parametrize("form", ["quick", "smoke"])
def test_a_reduced_recipe_is_labelled_and_compares_nothing(form):
    study = recipe(
        answers="learndcg-table1", metrics=[NDCG], tests={"against": "Fixed"}, **{form: {"seeds": [0, 1]}},
        losses={"Fixed": "LearnDCG:learn=none", "Learned": "LearnDCG"},
    )  # fmt: skip
    whole = table(run(study), "MQ2008")
    assert "▲" in whole.markdown()
    made = table(run(parse_recipe(yaml.safe_load(study.reduced(form).dump()))), "MQ2008")
    for text in (seen(made), made.markdown(), made.latex()):
        plain = " ".join(text.replace(r"\\_", "_").split())
        assert f"{form.capitalize()} run (--{form}): a short test of the recipe, not a result." in plain
        assert "neither tested nor compared with a paper" in plain
        assert not set("†▲▼") & set(text)
        assert "wedge" not in text
        for word in ("72.27", "diff", "paper:", "AttSets", " p "):
            assert word not in plain
    assert {row.loss for row in made.rows} == {"Fixed", "Learned"}
    assert all(each.p is None and each.printed is None for row in made.rows for each in row.entries.values())


def test_a_recipe_without_a_reduced_form_is_not_labelled():
    assert recipe().reduced("smoke").form is None


def test_what_a_reader_must_know():
    notes = table(run(recipe()), "MQ2008").notes
    assert notes == (
        "nDCG@10: gain exp, empty one, ties stable",
        "RR@10: gain best label > 0, empty one, ties stable",
        "Means over test queries, 2 folds (1, 2) and 3 seeds (0, 1, 2); ± is the standard deviation over seeds",
        "Tuning: 2 settings tried for each row on each fold, chosen by nDCG@10 on the validation lists with seed 0",
        "Difference in nDCG@10 from the best row, with its 95% interval",
        "p: t-test over 120 queries (queries and training runs are random); all pairs of rows are tested, and p "
        "against the best row is shown; Bonferroni's correction for 3 comparisons per column; "
        "† worse than another row at 0.05",
        "Detectable: one uncorrected test finds a true difference of 0.0152 to 0.0209 in nDCG@10 with 80% power",
    )


def test_unequal_tuning_is_said():
    results = run(recipe())
    lost = results.tuned()[0]
    made = table(Results(results.recipe, [o for o in results.cells if o is not lost]), "MQ2008")
    assert f"Tuning is not equal: 1 to 2 settings for {lost.cell.loss} (MLP)" in made.notes
    untuned = table(run(recipe(search={}, trials=1)), "MQ2008")
    assert "Tuning: none; settings are those of the recipe" in untuned.notes


def test_variants_are_said():
    study = recipe(losses={"Softmax": "softmax", "LambdaLoss": {"variants": ["lambdaloss@1", "lambdaloss@5"]}})
    results = run(study)
    assert len(results.tuned()) == 2 * (2 + 2 * 2)
    made = table(results, "MQ2008")
    assert [row.trials for row in made.rows] == [(2,), (2,)]
    assert made.rows[1].variants == ("lambdaloss@1", "lambdaloss@5")
    # Two settings and two variants are four tries.
    assert "Tuning is not equal: 4 settings for LambdaLoss (MLP)" in made.notes
    few = table(run(recipe(losses=study.raw["losses"], search={}, trials=1)), "MQ2008")
    assert "Tuning is not equal: 2 settings for LambdaLoss (MLP)" in few.notes


def tuned_with(results, value_of):
    """The same results with other validation values of the settings, and the final runs of what is then chosen."""
    study = results.recipe
    tuned = [replace(run, validation={study.choose: value_of(run.cell)}) for run in results.tuned()]
    values = {(run.cell.fold, run.cell.loss, run.cell.seed): run for run in results.final()}
    cells = study.final_cells(study.chosen(tuned))
    return Results(study, [*tuned, *(replace(values[each.fold, each.loss, each.seed], cell=each) for each in cells)])


def test_how_often_a_variant_was_chosen_is_said():
    losses = {"Fixed": {"variants": ["rmse:levels=3", "mse"]}, "Learned": {"variants": ["listnet", "softmax"]}}
    results, better = run(recipe(losses=losses)), {"rmse:levels=3": 0.1, "mse": 0.3, "listnet": 0.5, "softmax": 0.3}
    made = table(tuned_with(results, lambda cell: better[cell.variant] + 0.01 * cell.trial), "MQ2008")
    assert [row.chosen for row in made.rows] == [("mse", "mse"), ("listnet", "listnet")]
    often = "Number of times that validation chose each variant, over folds and models: "
    assert f"{often}Fixed: mse 2, rmse:levels=3 0; Learned: listnet 2, softmax 0" in made.notes
    # Two of the four settings of each row belong to a variant that was never chosen.
    assert any(note.endswith("Without them: 2 settings for Fixed (MLP), Learned (MLP)") for note in made.notes)
    signs = {1: 1, 2: -1}
    mixed = tuned_with(results, lambda cell: signs[cell.fold] * better[cell.variant] + 0.01 * cell.trial)
    made = table(mixed, "MQ2008")
    assert f"{often}Fixed: rmse:levels=3 1, mse 1; Learned: listnet 1, softmax 1" in made.notes
    assert not any("Without them" in note for note in made.notes)


def test_a_setting_without_effect_does_not_count():
    results = tuned_with(run(recipe()), lambda cell: 0.5 if cell.loss == "Softmax" else 0.1 * cell.trial)
    made = table(results, "MQ2008")
    assert {row.loss: row.effective for row in made.rows} == {"LambdaLoss": 2, "ApproxNDCG": 2, "Softmax": 1}
    assert any(note.endswith("Without them: 1 setting for Softmax (MLP)") for note in made.notes)


def test_results_as_they_are_read(tmp_path):
    """The same from the files of a results folder."""
    found = read_results(make(tmp_path / "results"))
    for made in tables(found):
        assert [(row.model, row.loss) for row in made.rows] == [(m, loss) for m in MODELS for loss in LOSSES]
        for row in made.rows:
            runs = [
                o for o in found.final() if (o.cell.data, o.cell.model, o.cell.loss) == (made.data, row.model, row.loss)
            ]
            for metric, own in row.entries.items():
                assert own.complete
                assert own.mean == pytest.approx(np.mean([run.test[metric] for run in runs]))
        assert any(note.startswith("Tuning: 4 settings tried for each row") for note in made.notes)


def test_one_table_for_each_data_set():
    study = recipe(data=["MQ2008", {"name": "MQ2008", "binary": True}])
    made = tables(run(study), metrics=NDCG)
    assert [own.data for own in made] == ["MQ2008", "MQ2008-b"]
    assert made[0].metrics == (NDCG,)
    with pytest.raises(ValueError, match="data must be one of 'MQ2008', 'MQ2008-b'; got 'MQ2007'"):
        table(run(study), "MQ2007")
    with pytest.raises(ValueError, match="metrics must be one of"):
        table(run(study), "MQ2008", ["AP"])


def test_folds_and_seeds_of_a_set_without_folds():
    made = table(run(recipe(data=["Yahoo"], folds="all", seeds=[0])), "Yahoo")
    own = entry(made, "LambdaLoss")
    assert (own.runs, own.wanted, own.spread) == (1, 1, None)
    assert "Means over test queries and 1 seed (0)" in made.notes
    assert "±" not in made.markdown()


def test_seeds_of_a_model_are_said():
    models = {"MLP": {"model": "mlp"}, "Linear": {"model": "linear", "seeds": [0]}}
    notes = table(run(recipe(models=models)), "MQ2008").notes
    spread = "± is the standard deviation over seeds"
    assert f"Means over test queries, 2 folds (1, 2) and 3 seeds (0, 1, 2); Linear: 1 seed (0); {spread}" in notes
    one = "One seed (Linear): the tests compare these trained models; models with another seed may differ"
    assert one in notes


def test_one_query_gives_no_interval():
    own = entry(table(run(recipe(folds=[1]), queries=1), "MQ2008"), "Softmax")
    assert (own.p, own.interval, own.detectable) == (1.0, None, None)


def test_a_single_detectable_difference_is_a_sentence():
    two = recipe(losses={"LambdaLoss": "lambdaloss", "Softmax": "softmax"})
    (note,) = [note for note in table(run(two), "MQ2008").notes if note.startswith("Detectable")]
    assert re.fullmatch(r"Detectable: .* finds a true difference of 0\.\d{4} in nDCG@10 with 80% power", note)

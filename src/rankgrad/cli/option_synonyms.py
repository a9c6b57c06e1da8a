"""Suggest options for names that other programs use: `--learning-rate` and `--eta` are `--lr` of `rankgrad train`."""

from typing import Any

from typer.core import TyperCommand

# Names in other programs, without dashes, by the option of this program.
_SYNONYMS = {
    "--batch-size": "lists_per_batch minibatch_size",
    "--categorical": "cat_features categorical_feature categorical_features categoricals",
    "--data": "input train train_data train_file training_data dataset path file",
    "--device": "cuda gpu use_gpu task_type",
    "--docid": "id document document_id item item_id product_id",
    "--drop": "exclude ignore ignore_column ignored_features",
    "--epochs": "iterations max_epochs max_iter n_epochs n_estimators n_trees num_boost_round num_epochs "
    "num_iterations num_round num_rounds num_trees trees",
    "--jobs": "n_jobs num_threads threads nthread workers num_workers",
    "--label": "target label_column y grade relevance",
    "--loss": "objective loss_function",
    "--lr": "learning_rate eta lr_rate rate step_size",
    "--metric": "eval_metric eval metrics",
    "--minutes": "time time_limit timeout max_time",
    "--model": "ranker estimator booster boosting",
    "--optimiser": "optim",
    "--out": "output output_dir out_dir save save_dir model_dir",
    "--patience": "early_stop early_stopping early_stopping_round early_stopping_rounds od_wait",
    "--query": "group group_id group_column qid query_id query_column",
    "--seed": "random_seed random_state",
    "--trials": "n_trials num_trials max_trials",
    "--weight": "sample_weight sample_weights weight_column",
    "--weight-decay": "l2 wd",
}
_OPTION_OF = {word: option for option, words in _SYNONYMS.items() for word in words.replace("_", "").split()}


class SuggestingCommand(TyperCommand):
    """Command that suggests its own option for the name that the same option has in another program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the name of the command; the error about an unknown option contains the suggestion."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # NoSuchOption is in different packages, which depends on the version of Typer
            if hasattr(error, "possibilities") and (found := self._same(str(getattr(error, "option_name", "")))):
                error.possibilities = [found]
            raise

    def _same(self, typed: str) -> str | None:
        """Return the option with the meaning of a typed name, if the command has it."""
        options = {_key(name): name for each in self.params for name in each.opts if name.startswith("--")}
        return options.get(_key(typed)) or options.get(_key(_OPTION_OF.get(_key(typed), "")))


def _key(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()

"""Find the best ranker for a data set in a given time: the search of `rankgrad auto` and `rankgrad.AutoRanker`.

- `portfolio` lists the candidates: settings that are good on many data sets, for several kinds of rankers; then draws.
- `stored_lists` divides the lists into folds, and shares them between processes.
- `fits` trains one candidate on all folds except one, and scores the lists of this fold.
- `search` decides which fits to run: all candidates on one fold, the better candidates on all folds.
- `leaderboard` lists the candidates with their metric.
- `ensemble` chooses the weights of an ensemble on scores of lists on which its members were not trained.
- `final_model` makes the returned model: bags of fold models, one model, an ensemble with a latency limit, a student;
  `latency` measures models, `students` trains students.
- `run` runs a search from beginning to end.
- `saved_search` reads a finished search from its folder, for a report.
"""

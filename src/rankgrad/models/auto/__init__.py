"""Find the best ranker for a data set in a given time: the search of `rankgrad auto` and `rankgrad.AutoRanker`.

- `portfolio` lists the candidates: settings that are good on many data sets, for several kinds of rankers. Candidates
  with random settings follow.
- `stored_lists` divides the lists into folds, and stores them in files that all processes read.
- `fits` trains one candidate with one fold held out, and scores the lists of this fold.
- `search` decides which fits to run: first, one fit of each candidate; then, the fits of the better candidates with
  each of the other folds held out.
- `leaderboard` lists the candidates with their metric.
- `ensemble` chooses the weights of an ensemble. It uses only scores of held-out lists.
- `final_model` makes the returned model: an ensemble of bags, one model that is trained on all lists, an ensemble with
  a latency limit, or a student. `latency` measures the latency of a model, and `students` trains students.
- `run` runs a search from beginning to end.
- `saved_search` reads a finished search from its folder, for a report.
"""

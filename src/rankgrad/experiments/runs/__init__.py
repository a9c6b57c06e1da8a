"""Runs of recipes: cells are trained in several processes, and each writes one result file.

- `run_recipe` runs the cells of a recipe that have no result yet, in a `process_pool` or a `ray_pool`.
- `run_cell` runs one `cell`: it reads the data, trains, evaluates and writes the result.
- `results` reads and writes result folders; `packed_results` and `result_checks` check files of unknown origin.
- `provenance` describes commit, versions and machine; `parent_watch` ends a worker whose parent is gone.
"""

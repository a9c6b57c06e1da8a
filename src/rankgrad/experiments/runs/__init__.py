"""Run recipes: train the cells in several processes, and write one result per cell.

- `run_recipe` runs the cells of a recipe that have no result yet, in a pool of `rankgrad.parallel`.
- `run_cell` runs one `cell`: it reads the data, trains, evaluates and writes the result.
- `results` reads and writes result folders; `packed_results` and `result_checks` check files of unknown origin.
- `provenance` describes commit, versions and machine.
"""

"""Reports of experiments and runs: a page that works offline, tables for papers, figures for slides.

- `page_content` defines the data of a page, and `writer` writes a report from this data.
- `study` gathers this data from an experiment, `training_study` from a training run, and `tuning_study` from a tuning
  run; `ranker_study` compares rankers that scored the same lists.
- `chart_data` computes the rows of the `charts`; `query_explorer` computes the data of single queries.
- `page` writes one HTML file that contains the tables, this data, and the JavaScript program from `web/`.
"""

from rankgrad import moved

# Names of version 0.1.0, in which this was a module.
_NAMES = ("gather", "write_page", "write_tables", "write_figures")
__getattr__ = moved.renamed(__name__, {name: f"writer.{name}" for name in _NAMES})

"""Tables of experiments: our numbers next to the published numbers, with spread, tests and footnotes.

- `table` computes a table from results, and `footnotes` writes the notes of a table.
- `published` reads the numbers that papers print.
- `text` writes a table for the terminal and in Markdown; `latex` writes a table in LaTeX.
- `plain_table` defines a table of texts and numbers, for the pages of single runs.
"""

from rankgrad import moved

# Names of version 0.1.0, in which this was a module.
__getattr__ = moved.renamed(__name__, {"Table": "table.Table", "tables": "table.tables"})

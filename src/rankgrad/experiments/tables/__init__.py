"""Tables of experiments: our numbers next to the published ones, with spread, tests and footnotes.

- `table` computes a table from results; `footnotes` explains it; `published` holds the numbers that papers print.
- `text` writes it for the terminal and in Markdown, `latex` in LaTeX.
"""

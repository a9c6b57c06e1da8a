"""Read LETOR / SVMLight text: the first pass counts, the second parses; errors name the file, the line and the fix.

- `reader`: `read_letor`, the entry point.
- `passes`: both passes over each file, in a few threads.
- `streams`: plain and compressed files as blocks of whole lines.
- `blocks` and `parser`: the compiled parser, block by block; `decimals` has its powers of ten.
- `errors`: the explanation of a bad line.
- `chunks`: `stream_letor`, a file of any size as a series of small data sets.
- `summary`: counts of a read.
"""

from rankgrad.data.letor.reader import read_letor

__all__ = ["read_letor"]

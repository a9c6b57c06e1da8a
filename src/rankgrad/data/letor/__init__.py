"""Read LETOR / SVMLight text in two passes: count, then parse. Errors name the file, the line and the expected text.

- `reader`: `read_letor`, the entry point.
- `passes`: the two passes over each file, in a few threads.
- `streams`: reads plain and compressed files as blocks of complete lines.
- `blocks`: counts or parses one block with the compiled `parser`; `decimals`: powers of ten for the parser.
- `errors`: the explanation of a bad line.
- `chunks`: `stream_letor`, which reads a file of any size as a series of small data sets.
- `sparse_reader`: reads files with very many features as a sparse matrix.
"""

from rankgrad.data.letor.reader import read_letor

__all__ = ["read_letor"]

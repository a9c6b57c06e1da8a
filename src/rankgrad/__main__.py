"""Entry point of `python -m rankgrad`, which is the same as the command `rankgrad`."""

from rankgrad.cli import main

main()

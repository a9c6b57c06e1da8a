"""Entry point of `python -m rankgrad.cli`, which `torchrun -m` needs."""

from rankgrad.cli import main

main()

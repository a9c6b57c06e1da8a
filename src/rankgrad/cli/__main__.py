"""`python -m rankgrad.cli`, which `torchrun -m` asks for."""

from rankgrad.cli import main

main()

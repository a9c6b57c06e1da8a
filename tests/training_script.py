"""A training run in a process of its own, to be killed, resumed or started twice: `training_script.py OUT SETTINGS`."""

import json
import sys

import torch

from rankgrad.data import load
from rankgrad.training import Settings, train

if __name__ == "__main__":
    torch.set_num_threads(1)
    out, settings = sys.argv[1], json.loads(sys.argv[2])
    lists = load("synthetic:lists=57,features=10")
    train(Settings.of(settings), lists.train, lists.validation, out=out, resume=True)

"""Folders that tests read from."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "rankgrad"
SHARED = ROOT.parent / "shared"  # data sets and expected values; tests that need them are skipped without

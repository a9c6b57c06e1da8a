"""Readers of collections: one module per format. `rankgrad.text.load` chooses the format."""

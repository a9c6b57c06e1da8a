"""Generators of the documentation pages: they compute tables and figures and fill the templates of `docs/templates`."""

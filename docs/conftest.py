"""pytest skips the page templates: their examples run in the generated pages."""

collect_ignore = ["templates"]

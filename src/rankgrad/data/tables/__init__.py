"""Read tables with one row per document: CSV, TSV, JSON lines, Parquet and Arrow files, with pyarrow."""

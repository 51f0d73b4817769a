"""PREESM: dataflow graphs (`.pi`), architectures (`.slam`) and scenarios."""

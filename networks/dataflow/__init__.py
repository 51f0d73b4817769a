"""Networks as dataflow graphs: layer by layer, and by parts of their height."""

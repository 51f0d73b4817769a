"""Files of other tools: imports and exports."""

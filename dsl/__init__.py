"""From `.flow` text to the model: grammar, parser, elaboration, formatter."""

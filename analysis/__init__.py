"""Questions about a model, answered with verdicts and witnesses. No costs are measured and nothing
is mapped here."""

"""Search for places: a request to `map`, its problems, and answers with their evidence."""

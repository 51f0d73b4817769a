"""Where everything should run: a request to `map`, its problems, and answers with their evidence."""

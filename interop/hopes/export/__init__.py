"""An application as a project of HOPES: `limits` rejects what HOPES does not support, `graph` makes
a graph of HOPES of each app, `wrapper` generates C code of tasks, `project` puts everything
together, `files` makes a plan of XML and code."""

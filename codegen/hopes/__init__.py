"""An application as a project of HOPES: `limits` says what cannot be one, `graph` makes a graph of HOPES of each app,
`wrapper` puts tasks into C, `project` puts all of it together, `files` makes a plan of XML and code.
"""

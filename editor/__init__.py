"""flowc for editors: the answers of a language server, and the server itself (`flowc lsp`).

`session` holds the open texts and checks them; the other modules express its answers in the
Language Server Protocol; `server` is the only one that communicates. Needs the extra `editor`.
"""

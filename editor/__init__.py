"""flowc for editors: what a language server answers, and the server itself (`flowc lsp`).

`session` keeps what is open and checks it; the other modules turn one of its answers into the words of the Language
Server Protocol; `server` is the only one that talks to anybody. Needs the extra `editor`.
"""

"""The work of every verb as a function, the same for the command line and for Python: no printing,
no exit status.

Data travels one way: `text` loads, stages and checks a text and gives a `Valid`; `measure` a
profile, from which `model.times` takes the times; `solve` searches; `plan` places and plans;
`build` emits and writes.
"""

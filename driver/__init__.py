"""The work of every verb as a function, the same for the command line and for Python: no printing, no exit status.

Data travels one way: `check` loads, stages and checks a text and gives a `Valid`; `measure` a profile, from which
`model.times` takes the times; `map` and `deadlines` search; `build` places, plans, emits and writes. `store` alone
reads and writes what is kept beside a text.
"""

"""Fuzzing: generate programs, find programs that a target gets wrong, shrink them, write them as
cases.

``generate.py`` builds programs from choices, ``generated_program.py`` defines them, ``search.py``
lets hypothesis choose and finds a wrong program, ``shrink.py`` makes it small, ``judges.py``
decides whether a program is wrong, and ``campaign.py`` searches for a given time and writes the
results.
"""

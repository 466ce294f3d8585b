"""Programs that nobody thought of: generated, judged, made small, and written as cases.

``growing.py`` says what a program may do next, ``program.py`` what one is, ``searching.py`` lets
hypothesis look for one that is judged wrong and make it small, ``judges.py`` says what is wrong,
``campaign.py`` goes on for as long as it is told and keeps what was found. It stands on the
pipeline, and is used by the command line.
"""

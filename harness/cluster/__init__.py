"""A run over many machines, on Dask: cells go to workers that can execute them, records come back.

The pytest session of ``conform run --cluster`` collects, sends units of work and alone writes the
record (:mod:`.plugin`, :mod:`.client`, :mod:`.ledger`, :mod:`.placing`). A worker (:mod:`.worker`)
has processes that run cells of its own checkout (:mod:`.slot`, :mod:`.child`). May import all of
the harness but the command line.
"""

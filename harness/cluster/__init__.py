"""Runs the cells of a session on the workers of a Dask cluster.

The pytest session of ``conform run --cluster`` collects cells, sends units of work and writes all
records (:mod:`.plugin`, :mod:`.client`, :mod:`.ledger`, :mod:`.placement`). A worker
(:mod:`.worker`) has processes that run cells of its own checkout (:mod:`.slot`,
:mod:`.slot_process`). May import all of the harness except the command line.
"""

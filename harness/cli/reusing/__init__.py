"""Commands on what need not run again: the store of results, and runs that were stopped."""

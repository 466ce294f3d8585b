"""What the delegate's runtime is given: the flatbuffer, read and verified into a graph.

The schema is the installed wheel's. Imports nothing of the other wing.
"""

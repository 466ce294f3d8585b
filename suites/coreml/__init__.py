"""Cases for what is special about CoreML: states, float16, compressed weights, dynamic sizes."""

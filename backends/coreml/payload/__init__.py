"""Read payloads of the CoreML delegate: folder, metadata, MIL program and weights."""

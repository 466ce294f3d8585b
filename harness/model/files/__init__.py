"""Files of tensors: inputs read from ``.pt``, NumPy, safetensors, image and audio files; outputs
written as bytes. Imports ``errors`` and torch."""

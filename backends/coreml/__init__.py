"""The CoreML backend: coremltools lowers programs, and kernels in torch execute them."""

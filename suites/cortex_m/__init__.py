"""Each CMSIS-NN kernel of the Cortex-M backend, on processors with and without vectors."""

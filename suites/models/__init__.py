"""Small models of published architectures, with random weights."""

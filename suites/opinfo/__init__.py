"""Programs that torch's own operator samples describe."""

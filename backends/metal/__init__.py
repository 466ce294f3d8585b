"""The Metal backend: what Inductor generates for it, checked and executed on any host."""

"""Commands for resources that runs share: clusters and caches."""

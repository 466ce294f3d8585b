"""``conform new-backend``: create a repository for a backend in another package."""

"""``conform new-backend``: a repository for a backend out of tree, which runs as it is written."""

"""What is kept of a cell in files, so that another runtime can be asked the same."""

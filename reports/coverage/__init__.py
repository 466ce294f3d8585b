"""What cells executed of the vendors' lowering code: in the terminal, and as a page."""

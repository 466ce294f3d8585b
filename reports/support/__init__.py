"""What backends claim to take and what cells showed: in the terminal, as a page and in Markdown."""

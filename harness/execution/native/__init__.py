"""What the ExecuTorch runtime of this host executes, and what it says of it."""

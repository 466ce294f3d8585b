"""What a cell may hold: workers say what they do, and a watch ends what takes too much."""

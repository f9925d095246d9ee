"""Episodes: recorded books, trades and settlements of one event in a folder, which is checked completely before use."""

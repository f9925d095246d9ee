"""Speed and memory, each as a ratio between two things measured in one run."""

"""Language models: which there are, what they are called with, what a call costs, and the client that asks them."""

"""Language models: the registry of models, their request parameters and costs, and the client that calls them."""

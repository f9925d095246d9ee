"""Language models: registry, parameters, costs, and the client that calls them."""

"""A live demo: a small search engine, simulated users, and a search page for you."""

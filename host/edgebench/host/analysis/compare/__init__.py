"""Statistics that compare models, and the check whether runs may be compared."""

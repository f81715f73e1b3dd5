"""Energy meters with a common interface, and a module or package for each driver."""

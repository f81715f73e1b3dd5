"""Energy meters: one interface, one file a driver."""

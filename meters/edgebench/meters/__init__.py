"""Energy meters: one interface, one file per driver."""

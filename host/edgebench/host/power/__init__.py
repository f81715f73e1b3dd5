"""Energy meters: settings, sessions, stored recordings and imported files."""

"""Device profiles: one TOML file per board, and the matcher that selects a profile."""

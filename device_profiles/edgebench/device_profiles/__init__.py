"""Device profiles: a TOML file per board, and the matcher that selects a profile."""

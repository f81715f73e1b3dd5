"""The differences between boards as data: one TOML file per board, and the matcher."""

"""What differs between boards, as data: one TOML file a board, and the matcher."""

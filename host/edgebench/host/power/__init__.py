"""Energy meters: what is asked of one, its sessions, stored recordings, files of others."""

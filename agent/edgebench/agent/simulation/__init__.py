"""A device that grows warm without being there, for tests, demonstrations and gates."""

"""The devices of this host: discovery, pairing, deployment and health."""

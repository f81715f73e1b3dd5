"""One self-contained page of a run, of several, or of a campaign."""

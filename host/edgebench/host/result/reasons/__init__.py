"""Kinds of reasons that a run's results contain, and the sentence for each kind."""

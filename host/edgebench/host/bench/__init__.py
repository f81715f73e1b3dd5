"""One measurement: what was asked, the plan, the run, and how it is collected."""

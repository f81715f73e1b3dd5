"""Campaigns over several lab hosts, which are Dask workers with their devices as resources.

    coordinator: journal, store                    lab host: farm file, pairings     device
    CampaignRuns ─ LabSession ── Dask scheduler ── LabDevice ─ DeviceSession ─────── agent
                     job with the id of its run →  settle, make
                   ← its events, and a bundle of the run

The coordinator decides which run is made next, under which id, and whether it is retried. Dask
transports jobs to the lab host, restarts them there after the lab host restarts, and returns the
results. Jobs are idempotent, so no run is lost or made twice if any process dies. The authoritative
state is in the coordinator's store and on the device, and the agent's lease is the only lock.
"""

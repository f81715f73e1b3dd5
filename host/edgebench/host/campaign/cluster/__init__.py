"""Campaigns over several lab hosts, which are Dask workers with their devices as resources.

    coordinator: journal, store                    lab host: farm file, pairings     device
    CampaignRuns ─ LabSession ── Dask scheduler ── LabDevice ─ DeviceSession ─────── agent
                     job with the id of its run →  settle, make
                   ← its events, and a bundle of the run

The coordinator decides which run is made next, and under which id. It also decides whether a failed
run is retried. Dask transports jobs to the lab host and returns the results. If the lab host
restarts, Dask restarts the jobs there. Jobs are idempotent, so no run is lost or made twice if any
process dies. The authoritative state is in the coordinator's store and on the device. The agent's
lease is the only lock.
"""

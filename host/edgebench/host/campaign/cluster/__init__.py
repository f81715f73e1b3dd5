"""Campaigns over several hosts: lab hosts are workers of a Dask scheduler, devices their resources.

    coordinator: journal, store                    lab host: farm file, pairings     device
    CampaignRuns ─ LabSession ── Dask scheduler ── LabDevice ─ DeviceSession ─────── agent
                     job with the id of its run →  settle, make
                   ← its events, and a bundle of the run

The coordinator decides: what is made next, under which id, and whether it is tried again. Dask
carries jobs to the lab host, begins them again there after a restart, and takes results back. A job
is idempotent, so nothing is lost or made twice whichever process dies: the truth is the
coordinator's store and the device, and the agent's lease is the only lock.
"""

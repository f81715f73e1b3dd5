"""Campaigns over several hosts: lab hosts as workers of a Dask scheduler; it carries calls only.

    coordinator: journal, store          lab host: farm file, pairings     device
    DeviceCampaign ─ LabDevice           LabLane ─ PairedDevice ────────── agent
          │ order of a run, id granted      ▲
          ▼                                 │ reports: id wanted, run kept, job ended
    ClusterConnection ── Dask scheduler ── LabWorker

The coordinator decides: what is made next, under which id, and whether it is tried again. A lab
host makes one run at a time on each device, and stores it; its device keeps the run until the
coordinator has it, too. So nothing is lost or made twice whichever process dies: the truth is the
coordinator's store and the device, and the agent's lease is the only lock.
"""

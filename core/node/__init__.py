"""A node: one server process with its share of the streams of a PostgreSQL database.

Several nodes share one PostgreSQL. Each stream belongs to a *lease group*, and at any time at most
one node commits to the streams of a group: its owner. This page is the specification. The table of
states and transitions is in `core.node.ownership.state`, and the running node uses that table.

*Authority.* PostgreSQL decides. Each group has an advisory lock, which only saves useless work.
Each stream has a head row with an *epoch*, which is authoritative. Every commit checks the epochs
of its streams, so a node that wrongly believes to own a group cannot change anything.

*States.* For this node a group is **free**, **loading** (the node has the lease and reads the
streams), **owned** (it serves them), **transferring** (it stores everything received, and accepts
no new publishes), or **owned by a peer**. Publishes to an owned group pass, those to a group of a
peer are sent over the link to it, and all others are held.

*The order in which no publish is lost.*

1. Acquire: lock the group, raise its epochs in one transaction, then read the rows. No earlier
owner can commit after the raise, so the rows are final.
2. Serve: announce to peers that subscriptions follow, subscribe to the streams' subjects, then
announce the *fencing token* (the number of the acquisition). A peer that receives the token has
received the subscriptions.
3. Transfer: announce the group without a token, so that peers hold its publishes. Wait for a PONG
of each peer: everything that the peer had sent has then arrived. Store all of that. Remove the
streams from memory, release the lock, and offer the group to the next owner.
4. A publish that was passed to one owner is never passed to another one.

*The trust window.* A node relies on its leases until `sent + ttl - margin`, where `sent` is the
time at which the last confirmed heartbeat was sent. After that it delays deliveries and API answers
(`core.jetstream.trust_gate`). Another node may end its session after `stale` without a heartbeat,
and `ttl - margin <= stale` (5 s - 1 s <= 4 s, `core.node.trust_window`): trust ends first.

*Failures and outcomes.*

- PostgreSQL does not answer: groups stay owned, publishes wait in memory, nothing is acknowledged;
  trust ends after at most 4 s.
- PostgreSQL answers again, and no other node has owned the groups, as tokens in their rows prove.
  The head rows show which commits have succeeded (`core.node.outage_recovery`).
- PostgreSQL answers again, and another node has owned some groups: these are lost. Their streams
  are removed from memory at once; clients are served through the new owner.
- PostgreSQL has lost commits (a failover, a restore): memory is invalid. The runtime ends, the next
  one loads, and sequences continue after all that were acknowledged.
- A node is killed: its locks end with its session. The node that the placement names acquires its
  groups; after 1 s any other node does.
- A node stalls with its session open: after 4 s without a heartbeat another node ends the session.
- The link to a peer is lost: publishes to its groups are held, and refused after 2 s.
- Two nodes claim a group: the one with the higher token owns it. Other nodes close their links to
  the one with the lower token.
- The rows of a group cannot be read: its lease is released. A damaged row ends the process.
- The epochs of a group are raised while its rows are read, as after an outage in the middle: its
  lease is released, since commits with the epochs read before would be fenced.
- A client publishes while a stream has no owner: the publish is held for 2 s (10 s after a start),
  then refused with 10008; at once if 16 MiB are held for the stream.

*Intervals.* A start retries PostgreSQL every 0.5 s (`database`), a node without a lease session
every 0.25 s (`campaign`); a failed load is repeated after 0.5 s (`lifecycle`). Heartbeats are sent
every second, and the placement runs every 0.25 s (`core.node.lease_times`).

*Modules.* `lifecycle` runs a process; `server` has its ports and links; `campaign` opens a
`lease_session`; `runtime` has JetStream in memory; `ownership` decides, acquires and transfers;
`publish_gate` passes, holds and refuses publishes; `peers` follows the other nodes; `owner_links`
finds the owner of a group; `outage_recovery` compares memory with storage. A server without
JetStream starts without `lease_session` and `runtime`, which import storage.
"""

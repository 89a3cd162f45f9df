"""The life of a node: its server, its lease groups, and its JetStream runtime.

Several nodes share one PostgreSQL. Each stream belongs to a lease group, and at any time at most
one node commits to the streams of a group. This page is the specification. The table of states and
transitions is in `core.node.ownership.state`, from which the running node dispatches.

*Authority.* PostgreSQL decides. An advisory lock per group is a hint that saves work; the epoch in
the head row of each stream is the truth. Every commit checks the epochs of its streams, so a node
that is mistaken about its groups cannot change anything.

*States.* For this node a group is **free**, **loading** (the node has the lease and reads the
streams), **owned** (it serves them), **transferring** (it stores everything received, and accepts
nothing new), or **owned by a peer**. Publishes to an owned group pass, those to a group of a peer
go over its link, and all others are held.

*The order that loses nothing.*

1. Acquire: lock the group, raise its epochs in one transaction, then read the rows. No earlier
owner can commit after the raise, so the rows are final.
2. Serve: announce to peers that interest follows, subscribe, then announce the fencing
token. A peer that receives the token has the interest.
3. Transfer: announce the group without a token, so that peers hold its publishes. Wait for a PONG
of each peer, which follows everything that peer had sent, and store all of that. Remove the streams
from memory, release the lock, and offer the group to the next owner.
4. A publish that was passed to one owner is never passed to another one.

*The trust window.* A node trusts its leases until `sent + ttl - margin`, where `sent` is the time
at which the last confirmed heartbeat was sent. Beyond that it defers deliveries and API answers
(`core.jetstream.trust_gate`). Another node may end its session after `stale` without a heartbeat,
and `ttl - margin <= stale` (5 s - 1 s <= 4 s, `core.node.trust_window`): trust ends first.

*Failures and outcomes.*

- PostgreSQL is away: groups stay owned, publishes accumulate, nothing is acknowledged; trust ends
  after at most 4 s.
- PostgreSQL is back, and no other node has owned the groups: their fencing tokens prove it. The
  plans in flight are compared with the heads (`core.node.outage_recovery`).
- PostgreSQL is back, and another node has owned some: these are lost. Their streams leave memory at
  once; clients are served through the new owner.
- PostgreSQL has lost commits (a failover, a restore): memory is invalid. The runtime ends, the next
  one loads, and sequences continue behind everything that was acknowledged.
- A node is killed: its locks end with its session. The node that the placement names acquires its
  groups; any other after 1 s.
- A node stalls with its session open: after 4 s without a heartbeat another node ends the session.
- The link to a peer is lost: publishes to its groups are held, and refused after 2 s.
- Two nodes claim a group: the one with the higher token owns it. Other nodes close their links to
  the one with the lower token.
- The rows of a group cannot be read: its lease is released. A damaged row ends the process.
- The epochs of a group are raised while its rows are read, as after an outage in the middle: its
  lease is released, since commits with the epochs read before would be fenced.
- A client publishes while a stream has no owner: the publish is held for 2 s (10 s after a start),
  then refused with 10008; at once if 16 MiB are held for the stream.

*Pauses.* A start retries PostgreSQL every 0.5 s (`database`), a node without a lease session every
0.25 s (`campaign`); a failed load is repeated after 0.5 s (`lifecycle`). Heartbeats are sent every
second, and the placement runs every 0.25 s (`trust_window.LeaseTimes`).

*Modules.* `lifecycle` runs a process; `server` has its ports and links; `campaign` opens a
`lease_session`; `runtime` has JetStream in memory; `ownership` decides, acquires and transfers;
`publish_gate` passes, holds and refuses publishes; `peers` follows the other nodes; `owner_links`
finds the owner of a group; `outage_recovery` compares memory with storage. A server without
JetStream starts without `lease_session` and `runtime`, which import storage.
"""

"""Remotes: the JetStream API of other NATS systems under a prefix of this server, or the reverse.

Each remote has one ordinary client connection. While it is connected, `$JS.<name>.API.>` here is
served by `$JS.API.>` there, so that a mirror, a source or any client that accepts a domain reads
streams of the other system as if they were here. With `nats-leaf://` the direction is reversed: the
API of this server is offered there, over a leaf node connection.

In this package *here* is the side of a bridge where requests come from (`request_side`), *there*
the side with the JetStream server.

`settings` is the configuration of a remote, `credentials` reads credentials files; `subject_map`
maps subjects, `bridge` forwards requests and answers, `relay` deliveries; `leaf` and `leaf_parser`
are the leaf node connection; `keeper` manages the remotes of a node.
"""

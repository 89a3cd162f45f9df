"""Remotes: the JetStream API of other NATS systems under a prefix of this server, or the reverse.

Each remote has one ordinary client connection. While it is connected, `$JS.API.>` there serves
`$JS.<name>.API.>` here, so that a mirror, a source or any client that accepts a domain reads
streams of the other system as if they were local. With `nats-leaf://` the direction is reversed:
the other system uses the API of this server, over a leaf node connection.

In this package *here* is the side of a bridge where requests come from (`request_side`), *there*
the side with the JetStream server.

`settings` is the configuration of a remote, `credentials` reads credentials files; `subject_map`
maps subjects, `bridge` forwards requests and responses, `relay` deliveries; `leaf` and
`leaf_parser` are the leaf node connection; `keeper` manages the remotes of a node.
"""

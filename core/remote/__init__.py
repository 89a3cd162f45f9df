"""Remotes: connections that make the JetStream API of one NATS system usable in another.

Each remote has one ordinary client connection. While it is connected, requests to
`$JS.<name>.API.>` on this server are forwarded to `$JS.API.>` of the other system. A mirror, a
source or any client that accepts a domain can thus read its streams as if they were local. With
`nats-leaf://` the direction is reversed: the other system uses the API of this server, over a leaf
node connection.

In this package *here* is the side of a bridge where requests come from (`request_side`), *there*
the side with the JetStream server.

`settings` is the configuration of a remote, `credentials` reads credentials files; `subject_map`
maps subjects, `bridge` forwards requests and responses, `relay` deliveries; `leaf` and
`leaf_parser` are the leaf node connection; `remotes` manages the remotes of a node.
"""

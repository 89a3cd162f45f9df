"""Other NATS systems, and their JetStream under a prefix of ours.

For every remote there is one ordinary client connection. While it stands, `$JS.<name>.API.>` here
is `$JS.API.>` there, so that a mirror, a source or any client that takes a domain reads streams of
the other system as if they were here.

`settings` says what a remote is, `credentials` who we are there; `subjects` maps names, `relay`
carries deliveries, `bridge` requests and answers; `keeper` holds the bridges of a node.
"""

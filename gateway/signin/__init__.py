"""Sign-in: the identity in a request, and the sessions and tickets between requests.

The authenticator (`gateway.door`) is the only caller.
"""

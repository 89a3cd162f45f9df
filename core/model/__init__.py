"""The JSON of the JetStream API as typed values, decoded and encoded as in the reference server.

These are configurations, states, requests, responses, advisories and numbered errors.
"""

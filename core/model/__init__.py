"""The JSON of the JetStream API as typed values, decoded and encoded as nats-server does.

These are configurations, states, requests, responses, advisories and numbered errors.
"""

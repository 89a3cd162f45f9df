"""The JSON of the JetStream API as typed values, read and written as the reference server does.

These are configurations, states, requests, responses, advisories and numbered errors.
"""

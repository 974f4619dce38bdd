"""Metrics for Prometheus, in the names, types and labels of RabbitMQ's plugin, so that its dashboards work; and ours.

`groups` says what is told of queues, channels, connections and exchanges, `families` of the broker as a whole, `text`
writes both in slices.
"""

"""Prometheus metrics, with the names, types and labels of RabbitMQ's plugin, so that its dashboards work; plus ours.

`groups` defines the metrics of queues, channels, connections and exchanges, `families` those of the whole broker;
`text` writes both in slices.
"""

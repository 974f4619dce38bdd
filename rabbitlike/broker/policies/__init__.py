"""Policies and parameters: settings that can change while queues and exchanges are in use."""

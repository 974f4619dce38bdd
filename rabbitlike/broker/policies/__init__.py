"""Policies and parameters: settings that change while queues and exchanges are in use."""

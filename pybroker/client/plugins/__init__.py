"""Plug-ins of a client: serializers, interceptors, metric reporters, and the metrics they read."""

"""What users put into a client: serializers, interceptors, metric reporters, and the metrics that these read."""

"""The same client sends the same requests, byte by byte, to pybroker and to Apache Kafka. The responses must be equal,
errors included.

Each story (a sequence of requests) runs against one broker after the other. `sides.plain` removes values from the
comparison that only one broker can know: member ids, producer ids, topic ids, times, addresses. A story names every
other difference, with its reason.
"""

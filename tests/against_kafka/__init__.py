"""The same requests, byte by byte of the same client, to pybroker and Apache Kafka: the same answers, errors included.

Each story is told to one broker after the other. What only one of them can know (member ids, producer ids, topic ids,
times, addresses) is left out of the comparison by `sides.plain`; whatever else differs is named in the story that meets
it, with its reason.
"""

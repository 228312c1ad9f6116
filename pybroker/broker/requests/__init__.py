"""One request between the native queue and its handler: the context, the task in which the handler runs, and error
responses for the whole request."""

"""One request between the native queue and its handler: who asks, how a handler is driven, how it fails as a whole."""

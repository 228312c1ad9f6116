"""One request between the native queue and its handler: its context, how its handler runs, how it fails as a whole."""

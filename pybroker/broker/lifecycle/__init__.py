"""How a broker is put together, started, watched and stopped."""

"""Builder of episodes from recordings, one episode per event."""

"""What measures the peers: scripts that run in environments of their own, where this package is not installed."""

"""What happens between ranks, and how ranks are started from a notebook."""

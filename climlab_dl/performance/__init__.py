"""Counting and measuring: FLOPs, bytes, seconds and scaling."""

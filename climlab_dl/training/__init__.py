"""What happens on one rank: a run, its loop, and what the loop is made of."""

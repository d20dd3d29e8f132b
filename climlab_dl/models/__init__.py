"""Networks: they know nothing of data, ranks, cluster or configuration."""

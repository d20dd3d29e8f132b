"""From a trained network to masks and posteriors."""

"""The universe: volumes, a particle-mesh simulator and its spectra."""

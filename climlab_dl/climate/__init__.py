"""The atmosphere: fields, archives, labels by rule and storms; numpy and xarray, never torch."""

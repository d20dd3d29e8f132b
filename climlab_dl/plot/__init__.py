"""Pictures: xarray and pandas in, composable HoloViews objects out."""

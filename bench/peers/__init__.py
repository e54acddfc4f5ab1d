"""Other systems over the same change stream, each result compared with what the view must hold."""

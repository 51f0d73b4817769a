"""Programs of their own, for processes of their own."""

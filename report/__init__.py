"""Pictures of models and of what was found about them."""

"""What a platform can run: which processors a task may go to, and which pins are legal."""

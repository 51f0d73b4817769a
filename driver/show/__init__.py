"""What people look at: analyses, pictures, reports, pages, notebooks."""

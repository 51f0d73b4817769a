"""Results for people: analyses, pictures, reports, pages, notebooks."""

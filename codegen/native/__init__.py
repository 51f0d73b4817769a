"""Native programs: C++ that runs a deployment without an interpreter."""

"""What a dataflow graph can do: rates, liveness, period, latency, buffers, schedules."""

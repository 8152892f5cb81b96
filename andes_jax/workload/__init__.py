"""What is asked of a server: recorded and synthetic arrivals, and what became of them."""

"""Pure resilience parts: deadlines and back-off; time and randomness are arguments."""

"""What this broker does when the controller speaks. Knows messages, not the controller."""

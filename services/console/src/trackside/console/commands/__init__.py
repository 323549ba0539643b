"""Commands that users publish from pages, and the forms for them."""

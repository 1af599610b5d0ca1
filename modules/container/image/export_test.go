package image

// Parse reads a reference of a user's, and writes it in the one way that stands for it.
func Parse(c Config, text string) (string, error) {
	t, err := c.parse("ada", text)
	return t.text, err
}

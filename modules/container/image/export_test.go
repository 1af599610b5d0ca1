package image

// Parse reads a reference, and writes it in the one way that stands for it.
func Parse(c Config, text string) (string, error) {
	t, err := c.parse(text)
	return t.text, err
}

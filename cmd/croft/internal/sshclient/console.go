package sshclient

import "strings"

// The lines around a machine's host keys on its console, as cloud-init prints them.
const (
	blockBegin = "-----BEGIN SSH HOST KEY KEYS-----"
	blockEnd   = "-----END SSH HOST KEY KEYS-----"
)

// mostKeys is how many keys of a block count: a server has one for each algorithm.
const mostKeys = 16

// Console finds the host keys in the lines of a console, which are added one by one. The last block that is complete
// and has a key counts: a machine prints its keys at each boot. The zero value is ready to use.
type Console struct {
	inside bool
	// block are the keys of the block that the lines are in, keys those of the last complete one.
	block, keys []HostKey
}

// Add takes the next line. It may have carriage returns, which end lines as newlines do. Within a block, lines that
// aren't keys are passed over: the kernel writes to the console too.
func (c *Console) Add(line string) {
	for _, text := range strings.FieldsFunc(line, func(r rune) bool { return r == '\r' || r == '\n' }) {
		c.add(strings.TrimSpace(text))
	}
}

func (c *Console) add(text string) {
	switch {
	case text == blockBegin:
		c.inside, c.block = true, nil
	case !c.inside:
	case text == blockEnd:
		if c.inside = false; len(c.block) > 0 {
			c.keys = c.block
		}
	case len(c.block) < mostKeys:
		if key, err := ParseHostKey(text); err == nil {
			c.block = append(c.block, key)
		}
	}
}

// Keys are those of the last complete block; none when there was no such block.
func (c *Console) Keys() []HostKey { return c.keys }

package run

import (
	"github.com/rs/zerolog"
)

// All does things that don't depend on each other side by side, and returns once all
// of them have: the error of the first, in their order, that has one. A panic is one.
func All(log zerolog.Logger, name string, do ...func() error) error {
	ends := make([]chan error, len(do))
	for i, one := range do {
		ends[i] = make(chan error, 1)
		go func() { ends[i] <- Guard(log, name, one) }()
	}
	var first error
	for _, end := range ends {
		if err := <-end; first == nil {
			first = err
		}
	}
	return first
}

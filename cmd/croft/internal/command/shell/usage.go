package shell

import (
	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"
)

// UsageError is a mistake on the command line.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// Usage makes err a mistake on the command line; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error {
	return Usage(errors.Errorf(format, args...))
}

// Arguments checks the number of arguments; what describes them.
func Arguments(c *cli.Context, least, most int, what string) ([]string, error) {
	if n := c.NArg(); n < least || n > most {
		return nil, Usagef("%s takes %s; %d arguments are given", c.Command.FullName(), what, n)
	}
	return c.Args().Slice(), nil
}

package verify

import "github.com/pkg/errors"

// errOlder marks a refusal for nothing but the age of the node's store: the
// node's owner may change that.
var errOlder = errors.New("it is older than the node's store")

func older(err error) error { return olderError{err} }

// olderError is an error with that mark, and the text and kind of another.
type olderError struct{ error }

func (e olderError) Unwrap() error        { return e.error }
func (e olderError) Is(target error) bool { return target == errOlder }

// IsOlder reports whether Acceptable refused a reservation only because it is
// older than the node's store.
func IsOlder(err error) bool { return errors.Is(err, errOlder) }

package verify

import "github.com/pkg/errors"

// errOlder marks a refusal only for being older than the node's store: the node's owner may allow that.
var errOlder = errors.New("it is older than the node's store")

func older(err error) error { return olderError{err} }

// olderError adds that mark to an error, and keeps its text and kind.
type olderError struct{ error }

func (e olderError) Unwrap() error        { return e.error }
func (e olderError) Is(target error) bool { return target == errOlder }

// IsOlder reports whether Acceptable refused a reservation only because it is
// older than the node's store.
func IsOlder(err error) bool { return errors.Is(err, errOlder) }
